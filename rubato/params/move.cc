#include "rubato/params/move.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// Of rows in a record, however long they are and however many a partition has: a frame that is too
// long for the receiver would be refused every time.
constexpr size_t kRecordBytes = size_t{1} << 20;
// So few changed rows, which are no more than a few records, are sent while requests wait; if rows
// change faster than they are sent, that comes after so many rounds.
constexpr size_t kFew = 4096;
constexpr size_t kFewBytes = 4 * kRecordBytes;
constexpr int kRoundsMax = 8;
constexpr uint64_t kPoints = FirstPoint(1);  // Of a partition.
// Records on their way.
constexpr int64_t kWindow = 4;
// Before a line is opened again that was lost, and after the first refusal and after many.
constexpr absl::Duration kPause = absl::Milliseconds(20);
constexpr absl::Duration kPauseRefused = absl::Milliseconds(500);
constexpr absl::Duration kPauseMost = absl::Seconds(30);

// On their way.
size_t RowBytes(const EmbeddingTable& table) {
  return sizeof(uint64_t) + table.row_floats() * sizeof(float);
}

}  // namespace

// Notes which rows of what is being moved changed after they were sent.
class MoveSender::Watch : public EmbeddingTable::Observer {
 public:
  Watch(EmbeddingTable& table) : table_(table) { table_.set_observer(this); }
  ~Watch() override { table_.set_observer(nullptr); }

  // The first so many points of a partition, whatever there is at them.
  void Sent(int64_t partition, uint64_t points) { sent_[static_cast<size_t>(partition)] = points; }
  void BeforeUpdate(const EmbeddingTable::RowName& row) override { Note(row.id); }
  void BeforeMake(uint32_t) override {}  // Rows are known by their ids here.
  void BeforeCount(uint64_t id, uint64_t, uint32_t) override { Note(id); }
  // Rows that do not exist yet have not been sent: only this tells of them.
  size_t changed() const { return changed_.size(); }
  // Up to `count` of them, in order.
  std::vector<uint64_t> Take(size_t count) {
    std::vector<uint64_t> ids;
    ids.reserve(std::min(count, changed_.size()));
    for (const uint64_t id : changed_) {
      if (ids.size() == count) break;
      ids.push_back(id);
    }
    for (const uint64_t id : ids) changed_.erase(id);
    std::sort(ids.begin(), ids.end());
    return ids;
  }

 private:
  void Note(uint64_t id) {
    const uint64_t point = PointOf(id);
    const int64_t partition = PartitionOf(point);
    if (point - FirstPoint(partition) < sent_[static_cast<size_t>(partition)]) changed_.insert(id);
  }

  EmbeddingTable& table_;
  std::array<uint64_t, kPartitions> sent_{};
  absl::flat_hash_set<uint64_t> changed_;
};

MoveSender::MoveSender(Shard& shard, const MoveOrder& order, int64_t attempt)
    : shard_(shard), order_(order), attempt_(attempt) {
  for (const Interval& run : order.partitions.Intervals()) {
    for (int64_t p = run.begin; p < run.end; ++p) partitions_.push_back(p);
  }
  for (const auto& table : shard_.tables_) watches_.push_back(std::make_unique<Watch>(*table));
}

MoveSender::~MoveSender() = default;

std::string MoveSender::Header() {
  std::string body;
  ByteWriter writer(body);
  writer.Put<int64_t>(order_.number);
  writer.Put<int64_t>(attempt_);
  writer.Put<int64_t>(sequence_++);
  return body;
}

// Each id as it is now: with a row, counted, or gone.
void MoveSender::PutRows(size_t t, const std::vector<uint64_t>& ids, std::vector<MoveRecord>& out) {
  const EmbeddingTable& table = *shard_.tables_[t];
  std::vector<uint64_t> with_row, counted, gone;
  std::vector<float> rows;
  std::vector<uint32_t> counts;
  for (const uint64_t id : ids) {
    const EmbeddingTable::Found found = table.Find(id);
    if (found.row.has_value()) {
      with_row.push_back(id);
      const float* row = table.row(*found.row);
      rows.insert(rows.end(), row, row + table.row_floats());
    } else if (found.count > 0) {
      counted.push_back(id);
      counts.push_back(found.count);
    } else {
      gone.push_back(id);
    }
  }
  const auto put = [&](RecordKind kind, const std::vector<uint64_t>& some, auto values) {
    if (some.empty()) return;
    const size_t each = values.size() / some.size();
    const size_t most = 1 + kRecordBytes / (sizeof(uint64_t) + each * sizeof(values[0]));
    for (size_t begin = 0; begin < some.size(); begin += most) {
      const auto ids = absl::MakeConstSpan(some).subspan(begin, most);
      MoveRecord& record = out.emplace_back(kind, Header());
      ByteWriter writer(record.second);
      writer.Put<uint64_t>(t);
      writer.Put<uint64_t>(ids.size());
      writer.PutSpan<uint64_t>(ids);
      writer.PutSpan(values.subspan(begin * each, ids.size() * each));
    }
  };
  put(RecordKind::kArriveRows, with_row, absl::MakeConstSpan(rows));
  put(RecordKind::kArriveCounted, counted, absl::MakeConstSpan(counts));
  put(RecordKind::kArriveGone, gone, absl::Span<const float>());
  rows_sent_ += static_cast<int64_t>(with_row.size());
}

// What lies at the next points of the partition at hand, by table. So many points that it is about
// as much as a record holds, if ids are spread as they are; fewer, if it is too much all the same.
std::vector<std::vector<uint64_t>> MoveSender::SomeIds(uint64_t* width) const {
  uint64_t here = 0;
  for (const auto& table : shard_.tables_) {
    here += (table->rows() + table->counted()) * RowBytes(*table);
  }
  const auto owned = static_cast<uint64_t>(PartitionsOf(shard_.histories_).size());
  const uint64_t pieces = 1 + here / owned / kRecordBytes;
  *width = std::min(kPoints - from_, kPoints / pieces + 1);
  for (;; *width = (*width + 1) / 2) {
    std::vector<std::vector<uint64_t>> ids(shard_.tables_.size());
    uint64_t bytes = 0;
    for (size_t t = 0; t < ids.size(); ++t) {
      const EmbeddingTable& table = *shard_.tables_[t];
      const uint64_t first = table.KeysOf(partitions_[next_]).first + from_;
      const uint64_t last = first + *width - 1;
      table.Visit(first, last, [&](uint64_t id, uint32_t) { ids[t].push_back(id); });
      table.VisitCounted(first, last, [&](uint64_t id, uint32_t) { ids[t].push_back(id); });
      bytes += ids[t].size() * RowBytes(table);
    }
    if (bytes <= 2 * kRecordBytes || *width == 1) return ids;
  }
}

void MoveSender::SendSome(std::vector<MoveRecord>& out) {
  uint64_t width = 0;
  const auto ids = SomeIds(&width);
  from_ += width;
  for (size_t t = 0; t < ids.size(); ++t) {
    PutRows(t, ids[t], out);
    watches_[t]->Sent(partitions_[next_], from_);
  }
  if (from_ < kPoints) return;
  from_ = 0;
  ++next_;
}

std::vector<MoveRecord> MoveSender::Step() {
  std::vector<MoveRecord> out;
  if (sequence_ == 0) {
    MoveRecord& begin = out.emplace_back(RecordKind::kArriveBegin, Header());
    ByteWriter writer(begin.second);
    writer.PutString(EncodePartitions(order_.partitions));
    writer.PutString(shard_.declaration_bytes_);
    const double share = static_cast<double>(partitions_.size()) /
                         static_cast<double>(PartitionsOf(shard_.histories_).size());
    for (const auto& table : shard_.tables_) {
      const uint64_t entries = table->rows() + table->counted();
      writer.Put<uint64_t>(static_cast<uint64_t>(share * static_cast<double>(entries)));
    }
  }
  const size_t begun = out.size();  // Where there is nothing: what comes next.
  while (out.size() == begun && next_ < partitions_.size()) SendSome(out);
  if (!out.empty()) return out;
  if (round_left_ == 0) {
    size_t changed = 0, bytes = 0;
    for (size_t t = 0; t < watches_.size(); ++t) {
      changed += watches_[t]->changed();
      bytes += watches_[t]->changed() * RowBytes(*shard_.tables_[t]);
    }
    if ((changed <= kFew && bytes <= kFewBytes) || rounds_ >= kRoundsMax) return out;
    // One round is a pass over what had changed when it began, give or take.
    ++rounds_;
    round_left_ = changed;
  }
  round_left_ -= std::min(SendChanged(out), round_left_);
  return out;
}

// About as many changed rows as a record holds. Returns how many, 0 if none are left.
size_t MoveSender::SendChanged(std::vector<MoveRecord>& out) {
  size_t sent = 0, bytes = 0;
  for (size_t t = 0; t < watches_.size() && bytes < kRecordBytes; ++t) {
    const size_t each = RowBytes(*shard_.tables_[t]);
    const std::vector<uint64_t> ids = watches_[t]->Take(1 + (kRecordBytes - bytes) / each);
    PutRows(t, ids, out);
    sent += ids.size();
    bytes += ids.size() * each;
  }
  return sent;
}

std::vector<MoveRecord> MoveSender::Finish() {
  std::vector<MoveRecord> out;
  if (sequence_ == 0 || next_ < partitions_.size()) {
    out = Step();
    if (!out.empty()) return out;
  }
  const int64_t before = rows_sent_;
  const bool rows = SendChanged(out) > 0;
  rows_sent_last_ += rows_sent_ - before;
  if (rows) return out;
  if (!std::exchange(finishing_, true)) ListTheRest();
  size_t bytes = 0;
  for (; bytes < kRecordBytes && !slices_.empty(); slices_.pop_back()) {
    const Shard::DenseSlice& slice = shard_.dense_.at(slices_.back());
    MoveRecord& record = out.emplace_back(RecordKind::kArriveDense, Header());
    ByteWriter writer(record.second);
    writer.Put<int64_t>(slices_.back());
    writer.PutSpan<float>(slice);
    bytes += record.second.size();
  }
  for (; bytes < kRecordBytes && !staged_.empty(); staged_.pop_back()) {
    MoveRecord& record = out.emplace_back(RecordKind::kArriveStaged, Header());
    record.second += staged_.back()->Of(order_.partitions).Encode();
    bytes += record.second.size();
  }
  finished_ = slices_.empty() && staged_.empty();
  if (!finished_) return out;
  MoveRecord& end = out.emplace_back(RecordKind::kArriveEnd, Header());
  ByteWriter writer(end.second);
  PutHistories(writer, HistoriesOf(shard_.histories_, order_.partitions));
  return out;
}

// What is left beside rows.
void MoveSender::ListTheRest() {
  for (const auto& [s, slice] : shard_.dense_) {
    if (order_.partitions.Contains(PartitionOfSlice(s))) slices_.push_back(s);
  }
  staged_ = shard_.staged_.All();
  std::reverse(slices_.begin(), slices_.end());
  std::reverse(staged_.begin(), staged_.end());
}

// ---- the source ----

void MoveSource::SetOrder(const MoveOrder& order) {
  if (order.number == order_.number) return;
  sender_.reset();
  frozen_ = ready_ = connected_ = false;
  unanswered_ = 0;
  order_ = order.from == shard_.options().server ? order : MoveOrder{.number = 0};
  refused_.clear();
  refusals_ = 0;
}

void MoveSource::Connected() {
  if (order_.number == 0 || ready_) return;
  connected_ = true;
}

void MoveSource::Lost() {
  connected_ = false;
  if (ready_) return;
  sender_.reset();
  frozen_ = false;
  unanswered_ = 0;
}

void MoveSource::Refused(const absl::Status& why) {
  if (order_.number == 0 || ready_ || absl::IsAborted(why)) return;
  refused_ = std::string(why.message());
  ++refusals_;
}

absl::Duration MoveSource::pause() const {
  if (refusals_ == 0) return kPause;
  return std::min(kPauseRefused * (int64_t{1} << std::min(refusals_ - 1, 10)), kPauseMost);
}

std::vector<MoveRecord> MoveSource::Next() {
  const bool finished = sender_ != nullptr && sender_->finished();
  if (!connected_ || finished || unanswered_ >= kWindow) return {};
  if (sender_ == nullptr) {
    // A map that came after the order may have carried it out; a checkpoint goes first.
    const IntervalSet owned = PartitionsOf(shard_.histories());
    const bool mine = order_.partitions.Intersect(owned) == order_.partitions;
    if (!mine || order_.partitions.empty() || shard_.observed()) return {};
    sender_ = std::make_unique<MoveSender>(shard_, order_, (life_ << 20) + ++attempts_);
  }
  std::vector<MoveRecord> records;
  if (!frozen_) records = sender_->Step();
  if (records.empty()) {
    frozen_ = true;
    records = sender_->Finish();
  }
  rows_sent_ = sender_->rows_sent();
  unanswered_ += static_cast<int64_t>(records.size());
  return records;
}

void MoveSource::Answered(const absl::Status& status) {
  if (sender_ == nullptr || ready_) return;
  if (!status.ok()) return Lost();
  --unanswered_;
  ready_ = sender_->finished() && unanswered_ == 0;
}

}  // namespace rubato
