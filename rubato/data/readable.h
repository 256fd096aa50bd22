// Records, and whoever parses them.
#ifndef RUBATO_DATA_READABLE_H_
#define RUBATO_DATA_READABLE_H_

#include <cstdint>

#include "rubato/data/source.h"

namespace rubato {

struct Readable {
  RecordSource* source = nullptr;  // Null: there are none.
  const RecordParser* parser = nullptr;

  int64_t records() const { return source != nullptr ? source->records() : 0; }
};

}  // namespace rubato

#endif  // RUBATO_DATA_READABLE_H_
