// Records, and whoever parses them.
#ifndef RUBATO_DATA_READABLE_H_
#define RUBATO_DATA_READABLE_H_

#include <cstdint>
#include <optional>

#include "rubato/data/source.h"

namespace rubato {

struct Readable {
  RecordSource* source = nullptr;  // Null: there are none.
  const RecordParser* parser = nullptr;

  int64_t records() const { return source != nullptr ? source->records() : 0; }
  std::optional<DataAway> away() const { return source != nullptr ? source->away() : std::nullopt; }
};

}  // namespace rubato

#endif  // RUBATO_DATA_READABLE_H_
