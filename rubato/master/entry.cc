#include "rubato/master/entry.h"

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {

std::string EncodeEntry(const JournalEntry& entry) {
  std::string bytes;
  ByteWriter out(bytes);
  out.Put(static_cast<uint8_t>(entry.kind));
  out.Put(static_cast<uint8_t>(entry.role));
  for (const int64_t value : {entry.id, entry.incarnation, entry.task.value(), entry.value}) {
    out.PutVarint(value);
  }
  out.PutVarint(static_cast<int64_t>(entry.text.size()));
  out.PutBytes(entry.text);
  out.PutVarint(static_cast<int64_t>(entry.numbers.size()));
  out.PutSpan<double>(entry.numbers);
  out.Put<uint8_t>(entry.sums.has_value());
  if (entry.sums.has_value()) out.PutString(EncodeSums(*entry.sums));
  return bytes;
}

std::string EncodePositions(const std::map<int64_t, IntervalSet>& positions) {
  std::string bytes;
  ByteWriter out(bytes);
  for (const auto& [epoch, set] : positions) {
    for (const Interval& run : set.Intervals()) {
      for (const int64_t value : {epoch, run.begin, run.end}) out.PutVarint(value);
    }
  }
  return bytes;
}

absl::StatusOr<std::map<int64_t, IntervalSet>> DecodePositions(absl::string_view bytes) {
  std::map<int64_t, IntervalSet> positions;
  ByteReader in(bytes);
  while (in.remaining() > 0) {
    const int64_t epoch = in.GetVarint(), begin = in.GetVarint(), end = in.GetVarint();
    RUBATO_RETURN_IF_ERROR(in.Check("positions"));
    if (epoch < 0 || begin < 0 || begin >= end) return absl::DataLossError("no positions");
    positions[epoch].Add(begin, end);
  }
  return positions;
}

absl::StatusOr<JournalEntry> DecodeEntry(absl::string_view bytes) {
  ByteReader in(bytes);
  JournalEntry entry;
  const uint8_t kind = in.Get<uint8_t>();
  const uint8_t role = in.Get<uint8_t>();
  entry.kind = static_cast<EntryKind>(kind);
  entry.role = static_cast<Role>(role);
  entry.id = in.GetVarint();
  entry.incarnation = in.GetVarint();
  entry.task = TaskId(in.GetVarint());
  entry.value = in.GetVarint();
  entry.text = std::string(in.GetBytes(static_cast<size_t>(in.GetVarint())));
  entry.numbers = in.GetVector<double>(static_cast<size_t>(in.GetVarint()));
  if (in.Get<uint8_t>() == 1) {
    RUBATO_ASSIGN_OR_RETURN(entry.sums, DecodeSums(in.GetString()));
  }
  RUBATO_RETURN_IF_ERROR(in.Check("journal entry"));
  const bool known =
      (kind >= 1 && kind <= static_cast<uint8_t>(EntryKind::kSpent)) ||
      (entry.kind >= EntryKind::kServersScaled && entry.kind <= EntryKind::kServersSettled) ||
      entry.kind == EntryKind::kFailure || entry.kind == EntryKind::kTakenBack ||
      entry.kind == EntryKind::kWentBack;
  if (!known || role > static_cast<uint8_t>(Role::kWorker) || in.remaining() > 0) {
    return absl::DataLossError(absl::StrCat("journal entry of unknown kind ", kind));
  }
  return entry;
}

}  // namespace rubato
