// What the memory of this machine gives at most: every process writes its buffer where others can
// read it, and reads another's, in pieces that stay in the cache on their way. A sum through memory
// must do as much, and nobody can have a piece before all have written it.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
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

// Where all wait for all: awake while there is a core for each of them, asleep otherwise.
class Meeting {
 public:
  explicit Meeting(const Place& place)
      : place_(place), spins_(place.size <= get_nprocs() ? INT_MAX : 0) {}

  void Meet(int round) {
    MemberReport* const members = place_.board->members;
    MemberReport& own = members[place_.rank];
    own.round = round;
    if (own.waiters.load() > 0) Futex(own.round, FUTEX_WAKE, INT_MAX);
    for (int other = 0; other < place_.size; ++other) WaitFor(members[other], round);
  }

 private:
  static void Futex(std::atomic<int>& word, int what, int value) {
    syscall(SYS_futex, &word, what, value, nullptr, nullptr, 0);
  }
  void WaitFor(MemberReport& member, int round) const {
    for (int spin = 0; member.round.load() < round; ++spin) {
      if (spin < spins_) continue;
      ++member.waiters;
      const int seen = member.round.load();
      if (seen < round) Futex(member.round, FUTEX_WAIT, seen);
      --member.waiters;
    }
  }

  const Place place_;
  const int spins_;
};

}  // namespace

std::vector<double> RunMemoryLimit(const Place& place, int64_t elements) {
  MemberReport* const members = place.board->members;
  Meeting meeting(place);
  const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  std::vector<char> buffer(bytes, static_cast<char>(place.rank));
  const int mine = memfd_create("memory_limit", MFD_CLOEXEC);
  if (mine < 0 || ftruncate(mine, 2 * kPieceBytes) != 0) return {};
  members[place.rank].rank = mine;
  members[place.rank].committed_nanos = getpid();
  meeting.Meet(1);
  const MemberReport& next = members[(place.rank + 1) % place.size];
  const std::string path = "/proc/" + std::to_string(next.committed_nanos.load()) + "/fd/" +
                           std::to_string(next.rank.load());
  char* const to = Map(mine, 2 * kPieceBytes);
  char* const from = Map(open(path.c_str(), O_RDWR | O_CLOEXEC), 2 * kPieceBytes);
  if (to == nullptr || from == nullptr) return {};
  std::vector<double> micros;
  int round = 1;
  for (int i = 0; i < place.runs + 2; ++i) {
    const int64_t begin = NowNanos();
    for (size_t done = 0; done < bytes; done += kPieceBytes) {
      // Of two places in turn, so that one meeting a piece is enough: whoever writes here again has
      // met all others since, and they had read it by then.
      const size_t place_of = round % 2 * kPieceBytes;
      const size_t piece = std::min(kPieceBytes, bytes - done);
      std::memcpy(to + place_of, buffer.data() + done, piece);
      meeting.Meet(++round);
      std::memcpy(buffer.data() + done, from + place_of, piece);
    }
    if (i >= 2) micros.push_back(static_cast<double>(NowNanos() - begin) / 1000);
  }
  meeting.Meet(round + 1);  // Whoever goes takes its memory along.
  return micros;
}

}  // namespace rubato
