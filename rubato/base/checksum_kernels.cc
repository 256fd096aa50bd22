// Compiled once for each instruction set, with RUBATO_CHECKSUM naming the function to define. All
// of xxhash is local to the file, so that no copy for a newer processor is linked into another.
#include "rubato/base/checksum_kernels.h"

#ifndef __clang__  // gcc 12 warns of its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rubato {

uint64_t RUBATO_CHECKSUM(const char* bytes, size_t count) { return XXH3_64bits(bytes, count); }

}  // namespace rubato
