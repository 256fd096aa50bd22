// What the memory of this machine gives at most: every process writes its buffer where others can
// read it, and reads another's. A sum through memory must do as much, and nobody can have it before
// all have written.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"

namespace rubato {
namespace {

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
  if (mine < 0 || ftruncate(mine, static_cast<off_t>(bytes)) != 0) return {};
  members[place.rank].rank = mine;
  members[place.rank].committed_nanos = getpid();
  meet(1);
  const MemberReport& next = members[(place.rank + 1) % place.size];
  const std::string path = "/proc/" + std::to_string(next.committed_nanos.load()) + "/fd/" +
                           std::to_string(next.rank.load());
  char* const to = Map(mine, bytes);
  char* const from = Map(open(path.c_str(), O_RDWR | O_CLOEXEC), bytes);
  if (to == nullptr || from == nullptr) return {};
  std::vector<double> micros;
  for (int i = 0; i < place.runs + 2; ++i) {
    meet(2 * i + 2);
    const int64_t begin = NowNanos();
    std::memcpy(to, buffer.data(), bytes);
    meet(2 * i + 3);
    std::memcpy(buffer.data(), from, bytes);
    if (i >= 2) micros.push_back(static_cast<double>(NowNanos() - begin) / 1000);
  }
  meet(2 * place.runs + 8);  // Whoever goes takes its memory along.
  return micros;
}

}  // namespace rubato
