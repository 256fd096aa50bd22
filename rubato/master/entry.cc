#include "rubato/master/entry.h"

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// Integers are written seven bits at a time, small ones (of either sign) in one byte.
void PutInt(ByteWriter& out, int64_t value) {
  uint64_t bits = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  for (; bits >= 0x80; bits >>= 7) out.Put<uint8_t>(static_cast<uint8_t>(bits | 0x80));
  out.Put<uint8_t>(static_cast<uint8_t>(bits));
}

int64_t GetInt(ByteReader& in) {
  uint64_t bits = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = in.Get<uint8_t>();
    bits |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
}

void PutSums(ByteWriter& out, const EvaluationSums& sums) {
  PutInt(out, sums.records);
  out.Put(sums.loss_sum);
  PutInt(out, sums.correct);
  PutInt(out, static_cast<int64_t>(sums.histogram.size()));
  int32_t last = 0;
  for (const auto& [bin, counts] : sums.histogram) {
    PutInt(out, bin - last);
    PutInt(out, counts.first);
    PutInt(out, counts.second);
    last = bin;
  }
  PutInt(out, static_cast<int64_t>(sums.user_sums.size()));
  for (const auto& [name, sum] : sums.user_sums) {
    out.PutString(name);
    out.Put(sum);
  }
}

EvaluationSums GetSums(ByteReader& in) {
  EvaluationSums sums;
  sums.records = GetInt(in);
  sums.loss_sum = in.Get<double>();
  sums.correct = GetInt(in);
  int64_t bin = 0;
  for (int64_t n = GetInt(in); n > 0 && in.ok(); --n) {
    bin += GetInt(in);
    const int64_t negatives = GetInt(in);
    sums.histogram[static_cast<int32_t>(bin)] = {negatives, GetInt(in)};
  }
  for (int64_t n = GetInt(in); n > 0 && in.ok(); --n) {
    const std::string name(in.GetString());
    sums.user_sums[name] = in.Get<double>();
  }
  return sums;
}

}  // namespace

std::string EncodeEntry(const JournalEntry& entry) {
  std::string bytes;
  ByteWriter out(bytes);
  out.Put(static_cast<uint8_t>(entry.kind));
  out.Put(static_cast<uint8_t>(entry.role));
  for (const int64_t value : {entry.id, entry.incarnation, entry.task.value(), entry.value}) {
    PutInt(out, value);
  }
  PutInt(out, static_cast<int64_t>(entry.text.size()));
  out.PutBytes(entry.text);
  PutInt(out, static_cast<int64_t>(entry.numbers.size()));
  out.PutSpan<double>(entry.numbers);
  out.Put<uint8_t>(entry.sums.has_value());
  if (entry.sums.has_value()) PutSums(out, *entry.sums);
  return bytes;
}

absl::StatusOr<JournalEntry> DecodeEntry(absl::string_view bytes) {
  ByteReader in(bytes);
  JournalEntry entry;
  const uint8_t kind = in.Get<uint8_t>();
  const uint8_t role = in.Get<uint8_t>();
  entry.kind = static_cast<EntryKind>(kind);
  entry.role = static_cast<Role>(role);
  entry.id = GetInt(in);
  entry.incarnation = GetInt(in);
  entry.task = TaskId(GetInt(in));
  entry.value = GetInt(in);
  entry.text = std::string(in.GetBytes(static_cast<size_t>(GetInt(in))));
  entry.numbers = in.GetVector<double>(static_cast<size_t>(GetInt(in)));
  if (in.Get<uint8_t>() == 1) entry.sums = GetSums(in);
  RUBATO_RETURN_IF_ERROR(in.Check("journal entry"));
  if (kind < 1 || kind > static_cast<uint8_t>(EntryKind::kViewIssued) ||
      role > static_cast<uint8_t>(Role::kWorker) || in.remaining() > 0) {
    return absl::DataLossError(absl::StrCat("journal entry of unknown kind ", kind));
  }
  return entry;
}

}  // namespace rubato
