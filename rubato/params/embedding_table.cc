#include "rubato/params/embedding_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/params/learning_rate.h"

namespace rubato {
namespace {

constexpr size_t kLine = 64;
constexpr int64_t kDimMax = 65536;

// Small rows fill a power of two, so that none straddles a line; larger ones start on a line if
// that wastes at most an eighth, else on a quarter of one.
size_t StrideFor(size_t bytes) {
  if (bytes <= kLine) {
    const size_t power = std::bit_ceil(bytes);
    return power - bytes <= power / 8 ? power : (bytes + 7) / 8 * 8;
  }
  const size_t lines = (bytes + kLine - 1) / kLine * kLine;
  return lines - bytes <= lines / 8 ? lines : (bytes + 15) / 16 * 16;
}

// Numbers lie among a row's floats as bits.
template <typename T>
T GetBits(const float* at) {
  T bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}
template <typename T>
void PutBits(float* at, T bits) {
  std::memcpy(at, &bits, sizeof(bits));
}

// The end of a row that may go: its id, and its place among the rows of its last step.
constexpr size_t kOrderFloats = 3;
constexpr size_t kPlaceFloats = 1;

// Address space is made for a server that has nothing yet as if it had this share of all ids.
constexpr double kShareUnknown = 1.0 / 16;

double ShareOf(const IntervalSet& partitions) {
  return static_cast<double>(partitions.size()) / kPartitions;
}

// How far ahead of its use memory is asked for, in rows. Asking steadily beats asking in bursts,
// which takes twice as long.
constexpr size_t kAhead = 64;
constexpr size_t kAheadNear = 32;  // The same, into the first cache.
// Rows are named ahead of their making so far, unless that is less than a huge page; and as far as
// the last push came, lest the next one pass by what is named.
constexpr uint64_t kAheadShare = 32;
constexpr uint64_t kAheadBytesMin = uint64_t{2} << 20;
constexpr uint64_t kAheadBytesMax = uint64_t{32} << 20;
constexpr uint64_t kAheadOfPushShare = 8;
constexpr uint64_t kAheadOfPushBytesMax = uint64_t{128} << 20;
constexpr uint64_t kAheadPiece = uint64_t{4} << 20;
// An index is laid out anew for ids to come if they are one in so many of those it has.
constexpr uint64_t kWorthLayingOut = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddingTable>> EmbeddingTable::Make(
    Memory& memory, const EmbeddingTableOptions& options) {
  const TableSpec& spec = options.spec;
  const std::string name = absl::StrCat("table ", spec.name);
  if (spec.dim < 1 || spec.dim > kDimMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": dim is ", spec.dim, ", but must be 1 to ", kDimMax));
  }
  RUBATO_CHECK(options.rows_max <= kCounted);
  auto table = std::unique_ptr<EmbeddingTable>(new EmbeddingTable);
  table->options_ = options;
  table->policy_ = spec.rows.value_or(options.rows);
  RUBATO_RETURN_IF_ERROR(Annotate(table->policy_.Validate(), name));
  table->stream_ = Mix(options.seed, HashText(spec.name, /*seed=*/1));
  if (table->policy_.capacity > 0 || table->policy_.ttl_steps > 0) {
    RUBATO_ASSIGN_OR_RETURN(table->order_, RowOrder::Make(memory, options.rows_max));
  }
  table->dim_ = static_cast<size_t>(spec.dim);
  RUBATO_ASSIGN_OR_RETURN(table->initializer_, RowInitializer::Make(spec, options.seed));
  RUBATO_RETURN_IF_ERROR(Annotate(table->MakeGroups(), name));
  table->stride_ = StrideFor(table->row_floats_ * sizeof(float));
  const double share = options.partitions.empty() ? kShareUnknown : ShareOf(options.partitions);
  RUBATO_ASSIGN_OR_RETURN(table->index_, RowIndex::Make(memory, options.rows_max, share));
  RUBATO_ASSIGN_OR_RETURN(table->rows_, Region::Reserve(memory, options.rows_max * table->stride_));
  table->slots_.fill(kNoSlot);
  table->partitions_.fill(kNoSlot);
  table->Adopt(options.partitions, 0);
  table->BeginStep(1, 0);
  return table;
}

void EmbeddingTable::Adopt(const IntervalSet& partitions, uint64_t entries) {
  size_t slot = 0;
  for (const Interval& run : partitions.Intervals()) {
    for (int64_t p = run.begin; p < run.end; ++p) {
      RUBATO_CHECK(!Has(p));
      while (partitions_[slot] != kNoSlot) ++slot;
      partitions_[slot] = static_cast<uint16_t>(p);
      slots_[static_cast<size_t>(p)] = static_cast<uint16_t>(slot);
      ++slots_used_;
      slots_end_ = std::max(slots_end_, static_cast<int64_t>(slot) + 1);
    }
  }
  SetShare();
  // Beside rows it would lay all of them out anew at once: what comes finds the room of its share.
  if (entries > 0 && index_.size() == 0) Reserve(entries);
}

// In the order of keys, so that what was dropped is not looked at again, a stretch at a time in
// which there are few enough if keys are spread as they are; shorter ones, if they are not.
bool EmbeddingTable::Abandon(int64_t partition, uint64_t most, uint64_t* dropped) {
  const uint64_t first = KeysOf(partition).first;
  constexpr uint64_t kKeys = FirstPoint(1);  // Of a partition.
  if (std::exchange(abandoned_, partition) != partition) abandoned_to_ = 0;
  const uint64_t each = index_.size() / static_cast<uint64_t>(slots_used_);
  const uint64_t usual = kKeys / (1 + 2 * each / most);
  std::vector<std::pair<uint64_t, uint32_t>> entries;
  for (uint64_t width = usual; abandoned_to_ < kKeys;) {
    width = std::min(width, kKeys - abandoned_to_);
    const uint64_t from = first + abandoned_to_;
    entries.clear();
    index_.Visit(from, from + width - 1,
                 [&](uint64_t key, uint32_t number) { entries.emplace_back(key, number); });
    if (*dropped + entries.size() > most && width > 1) {
      if (*dropped > 0) return false;
      width = (width + 1) / 2;
      continue;
    }
    for (const auto& [key, number] : entries) Remove(key, number);
    *dropped += entries.size();
    abandoned_to_ += width;
    width = std::min(2 * width, usual);
  }
  abandoned_ = -1;
  uint16_t& slot = slots_[static_cast<size_t>(partition)];
  partitions_[slot] = kNoSlot;
  slot = kNoSlot;
  --slots_used_;
  while (slots_end_ > 0 && partitions_[static_cast<size_t>(slots_end_ - 1)] == kNoSlot) {
    --slots_end_;
  }
  SetShare();
  return true;
}

void EmbeddingTable::SetShare() {
  index_.SetShare(slots_used_ > 0 ? static_cast<double>(slots_used_) / kPartitions : kShareUnknown);
  // A share for each partition, so that those of all servers add up to the whole.
  const auto below = [&](int64_t p) {
    return policy_.capacity / kPartitions * p + policy_.capacity % kPartitions * p / kPartitions;
  };
  capacity_ = 0;
  for (int64_t slot = 0; slot < slots_end_; ++slot) {
    const uint16_t p = partitions_[static_cast<size_t>(slot)];
    if (p != kNoSlot) capacity_ += static_cast<uint64_t>(below(p + 1) - below(p));
  }
}

void EmbeddingTable::Remove(uint64_t key, uint32_t number) {
  RUBATO_CHECK(index_.Erase(key) == number);
  if (number >= kCounted) return;
  if (order_.has_value()) order_->Remove(number);
  free_.push_back(number);
}

// Lays out a row: all weights, so that they are copied in one go, then the state of each group.
absl::Status EmbeddingTable::MakeGroups() {
  const TableSpec& spec = options_.spec;
  std::vector<ColumnGroup> columns = spec.groups;
  if (columns.empty()) columns = {{spec.dim, spec.initializer, spec.optimizer}};
  size_t weights_at = 0, state_at = dim_;
  for (const ColumnGroup& group : columns) {
    Group& made = groups_.emplace_back();
    made.part = {static_cast<size_t>(group.dim), weights_at, state_at};
    const bool stamp = order_.has_value() && groups_.size() == 1;
    RUBATO_ASSIGN_OR_RETURN(made.optimizer,
                            Optimizer::Make(group.optimizer.value_or(options_.optimizer), stamp));
    moves_meanwhile_ |= made.optimizer.moves_meanwhile();
    weights_at += made.part.dim;
    state_at += made.optimizer.row_state_floats(made.part.dim);
  }
  row_floats_ = state_at + (order_.has_value() ? kOrderFloats : 0);
  return absl::OkStatus();
}

std::vector<OptimizerSpec> EmbeddingTable::optimizers() const {
  std::vector<OptimizerSpec> all;
  for (const Group& group : groups_) all.push_back(group.optimizer.spec());
  return all;
}

void EmbeddingTable::BeginStep(uint32_t number, int64_t samples, double rate, bool evict,
                               double freshness) {
  const uint64_t touched = std::exchange(place_, 0);
  step_ = number;
  for (Group& group : groups_) {
    group.now =
        group.optimizer.At({.number = number,
                            .learning_rate = rate * LearningRateAt(group.optimizer.spec(), samples),
                            .freshness = freshness});
  }
  if (evict && order_.has_value()) Evict(touched);
}

// Finds the rows of all ids that lie in the first two groups they may lie in, which is nearly all
// of them, and lists the others.
void EmbeddingTable::Resolve(absl::Span<const uint64_t> ids, bool near, Lookup* lookup) const {
  const RowProbeKernels& kernels = BestRowProbe();
  const RowPlaces places = index_.places(slots_.data());
  kernels.place(places, ids.data(), ids.size(), lookup->keys.data(), lookup->homes.data());
  lookup->open_count = (near ? kernels.probe_near : kernels.probe)(
      places.groups, lookup->keys.data(), lookup->homes.data(), ids.size(), kCounted,
      lookup->numbers.data(), lookup->open.data());
}

// Asks for rows [begin, end), into the second cache or the first (row_probe.cc).
template <bool kNear>
inline void EmbeddingTable::FetchRows(const Lookup& lookup, size_t begin, size_t end,
                                      size_t bytes) const {
  for (size_t i = begin; i < end; ++i) {
    if (lookup.numbers[i] >= kCounted) continue;  // Nothing there: a page walk in vain.
    const char* row = reinterpret_cast<const char*>(Row(lookup.numbers[i]));
    for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 0, kNear ? 3 : 1);
  }
}

void EmbeddingTable::Gather(absl::Span<const uint64_t> ids, float* out) const {
  const bool near = ReadsNear();
  Lookup lookup;
  for (size_t begin = 0; begin < ids.size(); begin += kLookup) {
    const auto part = ids.subspan(begin, kLookup);
    Resolve(part, near, &lookup);
    for (size_t k = 0; k < lookup.open_count; ++k) {
      const uint32_t i = lookup.open[k];
      lookup.numbers[i] = index_.Find(lookup.keys[i]);
    }
    near ? CopyRows<true>(lookup, part, out + begin * dim_)
         : CopyRows<false>(lookup, part, out + begin * dim_);
  }
}

template <bool kNear>
void EmbeddingTable::CopyRows(const Lookup& lookup, absl::Span<const uint64_t> ids,
                              float* out) const {
  switch (dim_) {  // A length known to the compiler makes a copy a few moves instead of a call.
    case 1:
      return CopyRowsOf<1, kNear>(lookup, ids, out);
    case 8:
      return CopyRowsOf<8, kNear>(lookup, ids, out);
    case 16:
      return CopyRowsOf<16, kNear>(lookup, ids, out);
    case 32:
      return CopyRowsOf<32, kNear>(lookup, ids, out);
    default:
      return CopyRowsOf<0, kNear>(lookup, ids, out);
  }
}

template <size_t kDim, bool kNear>
void EmbeddingTable::CopyRowsOf(const Lookup& lookup, absl::Span<const uint64_t> ids,
                                float* out) const {
  const size_t dim = kDim == 0 ? dim_ : kDim;
  const size_t n = ids.size();
  constexpr size_t kReach = kNear ? kAheadNear : kAhead;
  FetchRows<kNear>(lookup, 0, std::min(kReach, n), dim * sizeof(float));
  for (size_t i = 0; i < n; ++i, out += dim) {
    FetchRows<kNear>(lookup, i + kReach, std::min(i + kReach + 1, n), dim * sizeof(float));
    if (lookup.numbers[i] >= kCounted) {
      initializer_.Fill(ids[i], out);
      continue;
    }
    const float* row = Row(lookup.numbers[i]);
    std::memcpy(out, row, dim * sizeof(float));
    if (!moves_meanwhile_) continue;
    for (const Group& group : groups_) {
      if (group.optimizer.moves_meanwhile()) {
        group.optimizer.Present(row, out, group.part, group.now);
      }
    }
  }
}

uint64_t EmbeddingTable::room() const {
  const uint64_t rows_max = std::min(options_.rows_max, index_.rows_max());
  return rows_max - std::min(index_.size() + appended_.size(), rows_max);
}

absl::Status EmbeddingTable::CheckRoom(size_t entries) const {
  const uint64_t free = room();
  if (entries <= free) return absl::OkStatus();
  const uint64_t rows_max = std::min(options_.rows_max, index_.rows_max());
  return absl::ResourceExhaustedError(absl::StrCat(
      "table ", name(), ": ", rows_max - free, " rows and ", entries, " more may pass ", rows_max,
      ", for which it has address space here; take more servers, or raise `ulimit -v`"
      " if it is set"));
}

size_t EmbeddingTable::CountMissing(absl::Span<const uint64_t> ids) const {
  return static_cast<size_t>(std::count_if(ids.begin(), ids.end(), [&](uint64_t id) {
    return index_.Find(KeyOf(id)) == RowIndex::kAbsent;
  }));
}

absl::Status EmbeddingTable::Update(absl::Span<const uint64_t> ids, const float* gradients) {
  if (ids.size() > room()) RUBATO_RETURN_IF_ERROR(CheckRoom(CountMissing(ids)));
  for (size_t begin = 0; begin < ids.size(); begin += kLookup) {
    UpdatePart(ids.subspan(begin, kLookup), gradients + begin * dim_);
  }
  return absl::OkStatus();
}

// All rows are found before any is moved: a store whose address hangs on a look-up would keep the
// next look-ups from overlapping.
void EmbeddingTable::UpdatePart(absl::Span<const uint64_t> ids, const float* gradients) {
  constexpr size_t kTogether = 8;  // Rows in one call of the optimizer.
  Lookup lookup;
  Resolve(ids, /*near=*/false, &lookup);
  for (size_t k = 0; k < lookup.open_count; ++k) {
    const uint32_t i = lookup.open[k];
    lookup.numbers[i] = FindOrAdmit(ids[i], lookup.keys[i]);
  }
  for (size_t i = 0; observer_ != nullptr && i < ids.size(); ++i) {
    if (lookup.numbers[i] >= kCounted) continue;
    observer_->BeforeUpdate({ids[i], lookup.keys[i], lookup.numbers[i]});
  }
  for (size_t i = 0; changes_.known() && i < ids.size(); ++i) {
    if (lookup.numbers[i] < kCounted) changes_.Mark(lookup.numbers[i]);
  }
  const size_t row_bytes = row_floats_ * sizeof(float);
  if (const Group& first = groups_[0]; groups_.size() == 1 && first.optimizer.moves_by_number()) {
    first.optimizer.UpdateNumbered({.weights = Row(0),
                                    .state = Row(0) + first.part.state_at,
                                    .stride = stride_,
                                    .row_bytes = row_bytes,
                                    .numbers = lookup.numbers.data(),
                                    .numbers_count = ids.size(),
                                    .numbers_end = kCounted,
                                    .gradients = gradients},
                                   first.part, first.now);
    return;  // Its rows have no stamps, so they do not go.
  }
  RowUpdate updates[kTogether];
  size_t count = 0;
  FetchRows<false>(lookup, 0, std::min(kAhead, ids.size()), row_bytes);
  for (size_t i = 0; i < ids.size(); ++i) {
    FetchRows<false>(lookup, i + kAhead, std::min(i + kAhead + 1, ids.size()), row_bytes);
    if (lookup.numbers[i] >= kCounted) continue;  // Refused.
    updates[count++] = {Row(lookup.numbers[i]), gradients + i * dim_};
    if (count < kTogether) continue;
    MoveRows(updates);
    count = 0;
  }
  MoveRows({updates, count});
  if (order_.has_value()) Touch(lookup, ids.size());
}

void EmbeddingTable::MoveRows(absl::Span<const RowUpdate> updates) {
  for (const Group& group : groups_) {
    group.optimizer.UpdateRows(updates, group.part, group.now);
  }
}

// ---- which ids have rows ----

// The number of an id's row, or kAbsent if it is refused one. An id may have been made since it was
// probed, if it occurs twice.
uint32_t EmbeddingTable::FindOrAdmit(uint64_t id, uint64_t key) {
  const uint32_t found = index_.Find(key);
  if (found < kCounted) return found;
  const bool known = found != RowIndex::kAbsent;
  const uint32_t kept = known ? found - kCounted : 0;
  const uint32_t count = kept & ~kOld;
  // Chance hangs on the id and the step, so that it falls alike when a log is replayed.
  const double chance = static_cast<double>(Mix(Mix(stream_, id), step_) >> 11) * 0x1.0p-53;
  if (chance >= policy_.admit_probability) {
    ++counters_.refused;
    return RowIndex::kAbsent;
  }
  if (observer_ != nullptr && policy_.admit_count > 1) observer_->BeforeCount(id, key, kept);
  if (count + 1 >= policy_.admit_count) return MakeRow(id, key, known);
  if (changes_.known()) changes_.Counted(id, NotesMost());
  if (known) {
    index_.Replace(key, kCounted + count + 1);
  } else {
    index_.Insert(key, kCounted + 1);
  }
  ++counters_.refused;
  return RowIndex::kAbsent;
}

uint32_t EmbeddingTable::NextNumber() {
  if (free_.empty()) return next_row_++;
  const uint32_t number = free_.back();
  free_.pop_back();
  if (observer_ != nullptr) observer_->BeforeMake(number);
  return number;
}

uint32_t EmbeddingTable::MakeRow(uint64_t id, uint64_t key, bool known) {
  const uint32_t number = NextNumber();
  float* row = Row(number);
  initializer_.Fill(id, row);
  for (const Group& group : groups_) group.optimizer.StartRow(row, group.part, step_);
  if (order_.has_value()) {
    PutBits<uint64_t>(row + row_floats_ - kOrderFloats, id);
    PutBits<uint32_t>(row + row_floats_ - kPlaceFloats, 0);
  }
  if (known) {
    index_.Replace(key, number);
  } else {
    index_.Insert(key, number);
  }
  ++counters_.admitted;
  return number;
}

// The rows just moved are the newest.
void EmbeddingTable::Touch(const Lookup& lookup, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t ahead = i + kAheadNear < n ? lookup.numbers[i + kAheadNear] : kCounted;
    if (ahead < kCounted) order_->Fetch(ahead);
    const uint32_t number = lookup.numbers[i];
    if (number >= kCounted) continue;
    PutBits<uint32_t>(Row(number) + row_floats_ - kPlaceFloats, place_);
    order_->Put(number, step_, place_++);
  }
}

RowOrder::Place EmbeddingTable::PlaceOf(uint32_t number) const {
  const float* end = Row(number) + row_floats_;
  return {GetBits<uint32_t>(end - kPlaceFloats), PointOf(GetBits<uint64_t>(end - kOrderFloats))};
}

// What the last step made too old or too many goes at once: no more than one push touched, and the
// same on any number of servers. What should have gone earlier follows bit by bit.
void EmbeddingTable::Evict(uint64_t touched) {
  const auto ttl = static_cast<uint64_t>(policy_.ttl_steps);
  const uint32_t due = ttl > 0 && ttl < step_ ? step_ - 1 - static_cast<uint32_t>(ttl) : 0;
  while (due > 0) {
    const std::optional<uint32_t> number = order_->AnyOf(due);
    if (!number.has_value()) break;
    EvictRow(*number);
  }
  for (uint64_t left = options_.late_max + touched; left > 0 && !order_->empty(); --left) {
    const bool too_many = policy_.capacity > 0 && rows() > capacity_;
    if (!too_many && order_->oldest_step() >= due) return;
    EvictRow(order_->Oldest([this](uint32_t row) { return PlaceOf(row); }));
  }
}

void EmbeddingTable::EvictRow(uint32_t number) {
  const auto id = GetBits<uint64_t>(Row(number) + row_floats_ - kOrderFloats);
  const uint64_t key = KeyOf(id);
  if (observer_ != nullptr) observer_->BeforeUpdate({id, key, number});
  Remove(key, number);
  if (changes_.known()) changes_.Gone(id, NotesMost());
  ++counters_.evicted;
}

// ---- restoring ----

void EmbeddingTable::Expect(uint64_t ids, std::vector<MemoryRange>* memory) {
  if (forgets() || policy_.admit_probability < 1 || !CheckRoom(ids).ok()) return;
  // A few more than there are find room as they come; laying out all anew for them would not pay.
  if (ids * kWorthLayingOut >= index_.size()) {
    Reserve(ids);
    memory->push_back(index_.memory());
  }
  if (policy_.admit_count > 1) return;  // Who knows how many of them get a row.
  memory->push_back({rows_.data() + uint64_t{next_row_} * stride_, ids * stride_});
}

void EmbeddingTable::TakeAhead(std::vector<MemoryRange>* memory) {
  index_.TakeAhead(memory);
  const uint64_t used = uint64_t{next_row_} * stride_;
  const uint64_t grown = used - std::exchange(rows_seen_, used);
  const uint64_t ahead =
      std::max(std::min(used / kAheadShare, kAheadBytesMax),
               std::min({grown, used / kAheadOfPushShare, kAheadOfPushBytesMax}));
  if (ahead < kAheadBytesMin || rows_ahead_ >= used + ahead / 2) return;
  const uint64_t end = std::min<uint64_t>(used + ahead, rows_.size());
  // What was passed by is named as well: it was held back, and would stay so.
  uint64_t begin = rows_ahead_;
  if (begin == 0) {
    begin = used;
    HoldBack({rows_.data() + used, rows_.size() - used});
  }
  for (uint64_t left = end; left > begin;) {  // Rows come last to what is named first.
    const uint64_t some = std::min(left - begin, kAheadPiece);
    left -= some;
    memory->push_back({rows_.data() + left, some});
  }
  rows_ahead_ = end;
}

absl::Status EmbeddingTable::CheckRow(uint64_t id, const float* row) const {
  if (!order_.has_value() || GetBits<uint64_t>(row + row_floats_ - kOrderFloats) == id) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("table ", name(), ": row ", id, " has another's id"));
}

absl::Status EmbeddingTable::CheckCount(uint64_t id, uint32_t count) const {
  const uint32_t times = count & ~kOld;
  if (times >= 1 && times < policy_.admit_count) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("table ", name(), ": id ", id, " cannot have been counted ", times, " times"));
}

absl::Status EmbeddingTable::Restore(uint64_t id, absl::Span<const float> row) {
  RUBATO_CHECK(row.size() == row_floats_);
  RUBATO_RETURN_IF_ERROR(CheckRow(id, row.data()));
  const uint64_t key = KeyOf(id);
  uint32_t number = index_.Find(key);
  if (number == RowIndex::kAbsent) {
    RUBATO_RETURN_IF_ERROR(CheckRoom(1));
    number = NextNumber();
    index_.Insert(key, number);
  } else if (number >= kCounted) {
    number = NextNumber();
    index_.Replace(key, number);
  }
  std::memcpy(Row(number), row.data(), row.size() * sizeof(float));
  if (changes_.known()) changes_.Mark(number);
  if (order_.has_value()) {
    order_->Put(number, groups_[0].optimizer.StampOf(row.data(), groups_[0].part),
                GetBits<uint32_t>(row.data() + row_floats_ - kPlaceFloats));
  }
  return absl::OkStatus();
}

void EmbeddingTable::Append(absl::Span<const uint64_t> ids, const float* rows) {
  RUBATO_CHECK(free_.empty() && !order_.has_value());
  for (size_t i = 0; i < ids.size(); ++i) {
    std::memcpy(Row(next_row_++), rows + i * row_floats_, row_floats_ * sizeof(float));
  }
  appended_.insert(appended_.end(), ids.begin(), ids.end());
}

absl::Status EmbeddingTable::LinkAppended() {
  Reserve(appended_.size());
  uint32_t number = next_row_ - static_cast<uint32_t>(appended_.size());
  for (const uint64_t id : std::exchange(appended_, {})) {
    const uint64_t key = KeyOf(id);
    if (index_.Find(key) != RowIndex::kAbsent) {
      return absl::DataLossError(absl::StrCat("table ", name(), ": two rows for id ", id));
    }
    index_.Insert(key, number++);
  }
  return absl::OkStatus();
}

EmbeddingTable::Found EmbeddingTable::Find(uint64_t id) const {
  const uint32_t number = index_.Find(KeyOf(id));
  if (number == RowIndex::kAbsent) return {};
  if (number >= kCounted) return {.count = number - kCounted};
  return {.row = number};
}

void EmbeddingTable::Erase(uint64_t id) {
  const uint64_t key = KeyOf(id);
  const uint32_t number = index_.Find(key);
  if (number == RowIndex::kAbsent) return;
  Remove(key, number);
  if (changes_.known()) changes_.Gone(id, NotesMost());
}

absl::Status EmbeddingTable::RestoreCounted(uint64_t id, uint32_t count) {
  const uint64_t key = KeyOf(id);
  RUBATO_RETURN_IF_ERROR(CheckCount(id, count));
  if (index_.Find(key) != RowIndex::kAbsent) {
    return absl::DataLossError(absl::StrCat("table ", name(), ": id ", id, " is there twice"));
  }
  RUBATO_RETURN_IF_ERROR(CheckRoom(1));
  index_.Insert(key, kCounted + count);
  if (changes_.known()) changes_.Counted(id, NotesMost());
  return absl::OkStatus();
}

}  // namespace rubato
