#include "rubato/adapters/ring/shared_slots.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/base/status.h"
#include "rubato/ring/plan.h"

namespace rubato {

struct SharedSlots::Slot {
  // The view's mark << 32 | barriers passed. Another view is never taken for this one's barrier.
  std::atomic<uint64_t> mark;
  std::atomic<uint32_t> bell;  // Changes with every mark; what waiters sleep on.
  std::atomic<uint32_t> waiters;
  std::atomic<uint64_t> vote;  // The last cast: a mark, as above, of a reduction's last barrier.
  std::atomic<uint64_t> withdrawn;  // The last taken back before all others were there.
  std::atomic<uint32_t> written;    // The mark of the view that it was last written in.
  float speeds[2];                  // They take turns, as the buffers below do,
  uint64_t calls[2];                // and what the owner calls. All in one line of the cache.
  // By the parity of the barrier that ends the writing.
  alignas(4096) char in[2][kPartBytes];
  char out[2][kPartBytes];  // This rank's slice of the sum, at its place.
};

namespace {

constexpr int64_t kSmallBytes = 8 << 10;
constexpr timespec kNap = {0, 2'000'000};  // Between looks at whether the view is still live.

void FutexWait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &kNap, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Of nothing there need be no place.
void Copy(const void* from, void* to, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

absl::Status Aborted() { return absl::AbortedError("the view has ended"); }

}  // namespace

bool SharedSlots::Reached(uint64_t theirs, uint64_t mark) {
  const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(theirs - mark));
  return ahead >= 0 && theirs >> 32 == mark >> 32;
}

absl::StatusOr<std::unique_ptr<SharedSlots>> SharedSlots::Create(const Attention& attention) {
  Fd file(memfd_create("rubato-ring", MFD_CLOEXEC));
  if (!file.valid() || ftruncate(file.get(), sizeof(Slot)) != 0) {
    return absl::UnavailableError(absl::StrCat("no shared memory: ", std::strerror(errno)));
  }
  auto slots = std::unique_ptr<SharedSlots>(new SharedSlots(attention));
  RUBATO_ASSIGN_OR_RETURN(slots->own_, Map(std::move(file)));
  return slots;
}

SharedSlots::~SharedSlots() {
  for (auto& [id, mapped] : others_) Unmap(mapped);
  Unmap(own_);
}

absl::StatusOr<SharedSlots::Mapped> SharedSlots::Map(Fd file) {
  void* memory = mmap(nullptr, sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, "cannot map a slot");
  }
  return Mapped{std::move(file), static_cast<Slot*>(memory)};
}

void SharedSlots::Unmap(Mapped& mapped) {
  if (mapped.slot != nullptr) munmap(std::exchange(mapped.slot, nullptr), sizeof(Slot));
}

absl::Status SharedSlots::Enter(const GroupView& view, int rank, MemberId self) {
  for (auto it = others_.begin(); it != others_.end();) {
    if (view.Contains(it->first)) {
      ++it;
      continue;
    }
    Unmap(it->second);
    it = others_.erase(it);
  }
  slots_.assign(view.size(), nullptr);
  for (int i = 0; i < view.size(); ++i) {
    const GroupMember& member = view.members[i];
    if (i == rank) {
      slots_[i] = own_.slot;
      continue;
    }
    auto it = others_.find(member.id);
    if (it == others_.end()) {
      denied_ = i;
      RUBATO_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(member.address));
      const std::string path = absl::StrCat("/proc/", endpoint.pid, "/fd/", endpoint.memory_fd);
      Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
      if (!file.valid()) {
        return errno == ENOENT || errno == ESRCH ? absl::UnavailableError("its process has ended")
                                                 : absl::ErrnoToStatus(errno, path);
      }
      RUBATO_ASSIGN_OR_RETURN(Mapped mapped, Map(std::move(file)));
      it = others_.emplace(member.id, std::move(mapped)).first;
    }
    slots_[i] = it->second.slot;
  }
  view_ = view.number;
  mark_ = static_cast<uint32_t>(view.Mark());
  count_ = 0;
  met_ = false;
  rank_ = rank;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof(cpus), &cpus);
  spins_ = view.size() <= CPU_COUNT(&cpus) ? 200 : 0;  // Spinning takes a core from the others.
  return absl::OkStatus();
}

void SharedSlots::Come() {
  Slot& own = *own_.slot;
  own.mark.store(Count(++count_), std::memory_order_seq_cst);
  own.bell.fetch_add(1, std::memory_order_seq_cst);
  if (own.waiters.load(std::memory_order_seq_cst) > 0) FutexWake(own.bell);
}

absl::Status SharedSlots::Gather() {
  Come();
  const uint64_t mark = Count(count_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (static_cast<int>(i) != rank_) RUBATO_RETURN_IF_ERROR(WaitFor(*slots_[i], mark));
  }
  return absl::OkStatus();
}

void SharedSlots::Tell() {
  own_.slot->speeds[count_ & 1] = speed_;
  own_.slot->calls[count_ & 1] = call_;
}

absl::Status SharedSlots::Barrier(int of) {
  const size_t turn = count_ & 1;
  if (of < 0 || of == rank_) Tell();
  if (Count(count_ + 1) == ballot_) own_.slot->vote.store(ballot_, std::memory_order_seq_cst);
  RUBATO_RETURN_IF_ERROR(Gather());
  const auto calls_it = [&](const Slot* slot) { return slot->calls[turn] == call_; };
  const bool alike =
      of < 0 ? std::all_of(slots_.begin(), slots_.end(), calls_it) : calls_it(slots_[of]);
  if (alike) return absl::OkStatus();
  // Those who went on without this member call what they like.
  return Intact() ? absl::InternalError("members of the view do not make the same calls")
                  : Aborted();
}

absl::Status SharedSlots::WaitFor(Slot& slot, uint64_t mark) {
  for (int spin = 0;; ++spin) {
    const uint32_t bell = slot.bell.load(std::memory_order_seq_cst);
    const auto reached = [&](const std::atomic<uint64_t>& where) {
      return Reached(where.load(std::memory_order_seq_cst), mark);
    };
    // A vote is cast when the sum is there. Its owner may have died before it wrote the mark, or
    // have come to the next view's first barrier since; who counts votes counts it, see Withdraw.
    const auto came = [&] { return reached(slot.mark) || (mark == ballot_ && reached(slot.vote)); };
    if (came()) return absl::OkStatus();
    if (spin < spins_) {
      Pause();
      continue;
    }
    if (attention_.live_view.load(std::memory_order_acquire) != view_) {
      // The control thread may have seen it come before it let go, and have said so.
      return came() ? absl::OkStatus() : Aborted();
    }
    slot.waiters.fetch_add(1, std::memory_order_seq_cst);
    FutexWait(slot.bell, bell);
    slot.waiters.fetch_sub(1, std::memory_order_seq_cst);
  }
}

absl::Status SharedSlots::Meet() {
  if (met_) return absl::OkStatus();
  RUBATO_RETURN_IF_ERROR(Gather());
  own_.slot->written.store(mark_, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_release);  // What is written now comes after it.
  met_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> SharedSlots::AllreduceAndVote(absl::Span<float> values, WireFormat format,
                                                   const Voting& voting) {
  RUBATO_RETURN_IF_ERROR(Meet());
  const size_t parts = PartsOf(values.size());
  const uint64_t ballot = Count(count_ + static_cast<uint32_t>(parts == 0 ? 1 : parts + 1));
  const uint64_t call =
      CallWord(Collective::kAllreduceAndVote, values.size() * sizeof(float), format, voting.step);
  if (!voting.pledge([this, ballot, call] { return Withdraw(ballot, call); })) return Aborted();
  call_ = call;
  ballot_ = ballot;
  speed_ = voting.speed;
  const absl::Status reduced = Reduce(values, format);
  ballot_ = 0;
  RUBATO_RETURN_IF_ERROR(reduced);
  RUBATO_CHECK(Count(count_) == ballot);
  ReadSpeeds(*voting.speeds);
  if (!Intact()) return absl::DataLossError("the others went on without this member");
  return Stands(ballot);
}

bool SharedSlots::Withdraw(uint64_t ballot, uint64_t call) {
  std::atomic<uint64_t>& withdrawn = own_.slot->withdrawn;
  withdrawn.store(ballot, std::memory_order_seq_cst);
  for (const Slot* slot : slots_) {
    if (!Reached(slot->vote.load(std::memory_order_seq_cst), ballot)) return false;
    if (slot->calls[(ballot - 1) & 1] != call) return false;
  }
  withdrawn.store(0, std::memory_order_seq_cst);
  return true;
}

// A later view's `withdrawn` may hide this one's, but only behind a later view's mark.
bool SharedSlots::Stands(uint64_t ballot) const {
  return std::all_of(slots_.begin(), slots_.end(), [&](const Slot* slot) {
    return slot->withdrawn.load(std::memory_order_seq_cst) != ballot &&
           slot->mark.load(std::memory_order_seq_cst) >> 32 == mark_;
  });
}

bool SharedSlots::Intact() const {
  std::atomic_thread_fence(std::memory_order_acquire);  // What was read was read before this.
  return std::all_of(slots_.begin(), slots_.end(), [&](const Slot* slot) {
    return slot->written.load(std::memory_order_seq_cst) == mark_;
  });
}

void SharedSlots::ReadSpeeds(std::vector<float>& speeds) const {
  speeds.clear();
  for (const Slot* slot : slots_) speeds.push_back(slot->speeds[(count_ - 1) & 1]);
}

absl::Status SharedSlots::Allreduce(absl::Span<float> values, WireFormat format) {
  call_ = CallWord(Collective::kAllreduce, values.size() * sizeof(float), format, 0);
  return Reduce(values, format);
}

absl::Status SharedSlots::Reduce(absl::Span<float> values, WireFormat format) {
  RUBATO_RETURN_IF_ERROR(Meet());
  RoundTo(format, values);  // Memory needs no narrower format; the meaning stays the same.
  RUBATO_RETURN_IF_ERROR(PartsOf(values.size()) == 0 ? ReduceSmall(values)
                                                     : ReduceParts(values, true));
  RoundTo(format, values);
  return absl::OkStatus();
}

// 0: all of it at once.
size_t SharedSlots::PartsOf(size_t floats) const {
  if (static_cast<int64_t>(floats * sizeof(float)) <= kSmallBytes) return 0;
  const size_t size = PartBytes(static_cast<int>(slots_.size())) / sizeof(float);
  return (floats + size - 1) / size;
}

absl::Status SharedSlots::ReduceSmall(absl::Span<float> values) {
  // Everyone leaves the barrier of the next call only after reading this one's: two turns suffice.
  const int turn = static_cast<int>(count_ & 1);
  HandIn(values);
  RUBATO_RETURN_IF_ERROR(Barrier());
  std::vector<const float*> parts;
  for (Slot* slot : slots_) parts.push_back(reinterpret_cast<const float*>(slot->in[turn]));
  SumOf(values, parts, 0);
  return absl::OkStatus();
}

// Between two barriers each member sums its slice of one part, fetches the others' slices of the
// part before, and hands in the part after: one barrier a part, and one more. What was written
// before a barrier is read before the next, so two of each buffer suffice, whatever comes after.
absl::Status SharedSlots::ReduceParts(absl::Span<float> values, bool wants) {
  const size_t size = PartBytes(static_cast<int>(slots_.size())) / sizeof(float);
  const size_t parts = PartsOf(values.size());
  const auto part = [&](size_t index) { return values.subspan(index * size, size); };
  HandIn(part(0));
  for (size_t i = 0; i < parts; ++i) {
    RUBATO_RETURN_IF_ERROR(Barrier());
    SumMine(part(i).size());
    if (i > 0 && wants) FetchSums(part(i - 1));
    if (i + 1 < parts) HandIn(part(i + 1));
  }
  RUBATO_RETURN_IF_ERROR(Barrier());
  if (wants) FetchSums(part(parts - 1));
  return absl::OkStatus();
}

void SharedSlots::HandIn(absl::Span<const float> part) {
  Copy(part.data(), own_.slot->in[count_ & 1], part.size() * sizeof(float));
}

// Of what was handed in before the last barrier.
void SharedSlots::SumMine(size_t part_size) {
  const int turn = static_cast<int>((count_ - 1) & 1);
  std::vector<const float*> parts;
  for (Slot* slot : slots_) parts.push_back(reinterpret_cast<const float*>(slot->in[turn]));
  const Slice mine =
      CutSlice(static_cast<int64_t>(part_size), static_cast<int>(slots_.size()), rank_);
  float* out = reinterpret_cast<float*>(own_.slot->out[count_ & 1]);
  SumOf(absl::MakeSpan(out + mine.begin, mine.size()), parts, mine.begin);
}

// What was summed before the last barrier.
void SharedSlots::FetchSums(absl::Span<float> part) {
  const int size = static_cast<int>(slots_.size());
  const int turn = static_cast<int>((count_ - 1) & 1);
  for (int i = 0; i < size; ++i) {
    const int rank = (rank_ + i) % size;  // Not all from the same slot at once.
    const Slice slice = CutSlice(static_cast<int64_t>(part.size()), size, rank);
    const float* sum = reinterpret_cast<const float*>(slots_[rank]->out[turn]);
    std::memcpy(part.data() + slice.begin, sum + slice.begin, slice.size() * sizeof(float));
  }
}

absl::Status SharedSlots::SumAtFirst(absl::Span<float> values, uint64_t call, float speed,
                                     std::vector<float>* speeds) {
  call_ = call;
  RUBATO_RETURN_IF_ERROR(Meet());
  const bool first = rank_ == 0;
  speed_ = speed;
  const size_t parts = PartsOf(values.size());
  RUBATO_RETURN_IF_ERROR(parts == 0           ? GiveToFirst(values)
                         : slots_.size() == 2 ? AddOther(values)
                                              : ReduceParts(values, first));
  if (!first) return absl::OkStatus();
  ReadSpeeds(*speeds);
  return Intact() ? absl::OkStatus() : Aborted();
}

absl::Status SharedSlots::GiveToFirst(absl::Span<float> values) {
  if (rank_ == 0) return ReduceSmall(values);
  HandIn(values);
  Tell();
  Come();  // The sum of all machines shows that the others have.
  return absl::OkStatus();
}

// Each part is added where it is to be, while the other hands in the next: no copy but that one.
absl::Status SharedSlots::AddOther(absl::Span<float> values) {
  const size_t size = PartBytes(2) / sizeof(float);
  for (size_t done = 0; done < values.size(); done += size) {
    const absl::Span<float> part = values.subspan(done, size);
    const size_t turn = count_ & 1;
    if (rank_ != 0) HandIn(part);
    RUBATO_RETURN_IF_ERROR(Barrier());
    if (rank_ == 0) AddTo(part, reinterpret_cast<const float*>(slots_[1]->in[turn]));
  }
  return absl::OkStatus();
}

absl::Status SharedSlots::Broadcast(absl::Span<char> bytes, int root) {
  return SpreadFrom(root, bytes, {}, -1,
                    CallWord(Collective::kBroadcast, bytes.size(), WireFormat::kFp32, root));
}

absl::Status SharedSlots::SpreadSum(absl::Span<char> bytes, absl::Span<float> speeds,
                                    uint64_t call) {
  return SpreadFrom(0, bytes, speeds, 0, call);
}

absl::Status SharedSlots::SpreadCall(absl::Span<char> bytes, int root, uint64_t call) {
  return SpreadFrom(root, bytes, {}, -1, call);
}

// What is written before a barrier is read before the next, as in ReduceParts.
absl::Status SharedSlots::SpreadFrom(int root, absl::Span<char> bytes, absl::Span<float> speeds,
                                     int of, uint64_t call) {
  call_ = call;
  RUBATO_RETURN_IF_ERROR(Meet());
  const size_t told = speeds.size() * sizeof(float);
  const size_t size = PartBytes(static_cast<int>(slots_.size())) - told;
  size_t done = 0;
  do {
    const absl::Span<char> part = bytes.subspan(done, size);
    char* const place = slots_[root]->in[count_ & 1];
    if (rank_ == root) Copy(part.data(), place, part.size());
    if (rank_ == root) Copy(speeds.data(), place + size, told);
    RUBATO_RETURN_IF_ERROR(Barrier(of));
    if (rank_ != root) Copy(place, part.data(), part.size());
    if (rank_ != root) Copy(place + size, speeds.data(), told);
    done += part.size();
  } while (done < bytes.size());
  return Intact() ? absl::OkStatus() : Aborted();
}

void SharedSlots::Refuse(uint64_t call) {
  own_.slot->calls[count_ & 1] = ~call;
  Come();
}

absl::Status SharedSlots::Vote(int64_t step, float speed, std::vector<float>& speeds) {
  call_ = CallWord(Collective::kVote, 0, WireFormat::kFp32, step);
  RUBATO_RETURN_IF_ERROR(Meet());
  speed_ = speed;
  RUBATO_RETURN_IF_ERROR(Barrier());
  ReadSpeeds(speeds);
  return absl::OkStatus();
}

}  // namespace rubato
