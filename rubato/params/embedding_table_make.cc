// The tables of a process side by side, in the address space that it has.
//
// Reserving wide costs nothing where there is no limit. Where there is one (`ulimit -v`, or a
// kernel that promises no more than it has), tables hold fewer rows each: half as many, and half of
// that again, until they fit and leave as much to all else that the process needs. How many rows a
// table could have changes nothing that it does before it has them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/params/embedding_table.h"

namespace rubato {
namespace {

// With fewer than so many it is better to say so.
constexpr uint64_t kRowsLeast = uint64_t{1} << 20;

using Tables = std::vector<std::unique_ptr<EmbeddingTable>>;

absl::StatusOr<Tables> Try(Memory& memory, const std::vector<EmbeddingTableOptions>& options) {
  Tables tables;
  for (const EmbeddingTableOptions& one : options) {
    auto table = EmbeddingTable::Make(memory, one);
    if (absl::IsResourceExhausted(table.status())) {
      return Annotate(table.status(),
                      absl::StrCat("table ", one.spec.name, " of ", one.rows_max, " rows"));
    }
    RUBATO_RETURN_IF_ERROR(table.status());
    tables.push_back(*std::move(table));
  }
  return tables;
}

bool LeaveAsMuch(Memory& memory, const Tables& tables) {
  uint64_t bytes = 0;
  for (const auto& table : tables) bytes += table->bytes_reserved();
  return Region::Reserve(memory, bytes).ok();
}

bool AskForLess(std::vector<EmbeddingTableOptions>& options) {
  bool less = false;
  for (EmbeddingTableOptions& one : options) {
    if (one.rows_max <= kRowsLeast) continue;
    one.rows_max = std::max(one.rows_max / 2, kRowsLeast);
    less = true;
  }
  return less;
}

}  // namespace

absl::StatusOr<Tables> EmbeddingTable::MakeAll(Memory& memory,
                                               std::vector<EmbeddingTableOptions> options) {
  for (;;) {
    absl::StatusOr<Tables> tables = Try(memory, options);
    if (tables.ok() && LeaveAsMuch(memory, *tables)) return tables;
    const bool is_full = tables.ok() || absl::IsResourceExhausted(tables.status());
    if (!is_full || !AskForLess(options)) return tables;
  }
}

}  // namespace rubato
