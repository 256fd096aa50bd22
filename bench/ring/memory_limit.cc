// What the memory of this machine gives at most: every process writes its buffer where others can
// read it, and reads another's, in pieces that stay in the cache on their way. A sum through memory
// must do as much, and nobody can have a piece before all have written it.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

constexpr size_t kPieceBytes = 512 << 10;

char* Map(int fd, size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

}  // namespace

std::vector<double> RunMemoryLimit(const Place& place, int64_t elements) {
  MemberReport* const members = place.board->members;
  const auto meet = [&](int64_t round) {
    members[place.rank].step = round;
    for (int other = 0; other < place.size; ++other) {
      while (members[other].step.load() < round) sched_yield();
    }
  };
  const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  std::vector<char> buffer(bytes, static_cast<char>(place.rank));
  const int mine = memfd_create("memory_limit", MFD_CLOEXEC);
  if (mine < 0 || ftruncate(mine, 2 * kPieceBytes) != 0) return {};
  members[place.rank].rank = mine;
  members[place.rank].committed_nanos = getpid();
  meet(1);
  const MemberReport& next = members[(place.rank + 1) % place.size];
  const std::string path = "/proc/" + std::to_string(next.committed_nanos.load()) + "/fd/" +
                           std::to_string(next.rank.load());
  char* const to = Map(mine, 2 * kPieceBytes);
  char* const from = Map(open(path.c_str(), O_RDWR | O_CLOEXEC), 2 * kPieceBytes);
  if (to == nullptr || from == nullptr) return {};
  std::vector<double> micros;
  int64_t round = 1;
  for (int i = 0; i < place.runs + 2; ++i) {
    const int64_t begin = NowNanos();
    for (size_t done = 0; done < bytes; done += kPieceBytes) {
      // Of two places in turn, so that one meeting a piece is enough: whoever writes here again has
      // met all others since, and they had read it by then.
      const size_t place_of = round % 2 * kPieceBytes;
      const size_t piece = std::min(kPieceBytes, bytes - done);
      std::memcpy(to + place_of, buffer.data() + done, piece);
      meet(++round);
      std::memcpy(buffer.data() + done, from + place_of, piece);
    }
    if (i >= 2) micros.push_back(static_cast<double>(NowNanos() - begin) / 1000);
  }
  meet(round + 1);  // Whoever goes takes its memory along.
  return micros;
}

}  // namespace rubato
