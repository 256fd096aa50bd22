// How a new row starts: a function of (seed, table, id) alone, so that a run depends neither on the
// order in which ids arrive nor on the number of servers.
#ifndef RUBATO_PARAMS_INITIALIZER_H_
#define RUBATO_PARAMS_INITIALIZER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/model/trainer.h"

namespace rubato {

class Initializer {
 public:
  Initializer() = default;  // zeros
  // INVALID_ARGUMENT for a name it does not know, listing those it does: never silent zeros.
  static absl::StatusOr<Initializer> Make(const InitializerSpec& spec, uint64_t seed,
                                          absl::string_view table);

  void Fill(uint64_t id, absl::Span<float> row) const;

 private:
  enum class Kind { kConstant, kUniform, kNormal, kTruncatedNormal };
  struct Named;
  static const Named kNames[];

  Kind kind_ = Kind::kConstant;
  double scale_ = 0;
  double fan_ = 0;  // If not 0, the scale is multiplied by sqrt(fan_ / dim).
  uint64_t stream_ = 0;
};

// How a table's whole rows start: one initializer, or one for each group of columns.
class RowInitializer {
 public:
  // INVALID_ARGUMENT also if the groups do not add up to the table's dim.
  static absl::StatusOr<RowInitializer> Make(const TableSpec& table, uint64_t seed);

  void Fill(uint64_t id, float* row) const;

 private:
  struct Group {
    Initializer initializer;
    size_t dim;
  };
  std::vector<Group> groups_;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_INITIALIZER_H_
