// Apart from bytes.cc, where xxHash is inlined for plain x86-64: the packaged one chooses what is
// best for the processor at run time, and takes half the time for a long stretch.
#ifdef __x86_64__
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "rubato/base/bytes.h"

namespace rubato {

uint64_t Checksum(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace rubato
