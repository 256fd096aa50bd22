// XXH3 over long stretches, once for each instruction set that the compiler is told to use. They
// answer alike; the widest takes less than half of the time of the plain one.
#ifndef RUBATO_BASE_CHECKSUM_KERNELS_H_
#define RUBATO_BASE_CHECKSUM_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace rubato {

// Defined by checksum_kernels.cc, compiled three times.
uint64_t ChecksumPlain(const char* bytes, size_t count);
uint64_t ChecksumAvx2(const char* bytes, size_t count);
uint64_t ChecksumAvx512(const char* bytes, size_t count);

}  // namespace rubato

#endif  // RUBATO_BASE_CHECKSUM_KERNELS_H_
