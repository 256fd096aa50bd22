// Sums and conversions over plain memory. Written as simple loops over restricted pointers, which
// the compiler turns into the widest vectors the machine has.
#ifndef RUBATO_RING_KERNELS_H_
#define RUBATO_RING_KERNELS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "rubato/net/wire_format.h"

namespace rubato {

// sum[i] += part[i].
void AddTo(absl::Span<float> sum, const float* part);
// sum[i] = the sum of parts[p][offset + i] over p, in the order of p: the same bits for all.
void SumOf(absl::Span<float> sum, absl::Span<const float* const> parts, int64_t offset);

// To the wire and back. `wire` holds values.size() * WireBytes(format) bytes.
void Pack(WireFormat format, absl::Span<const float> values, void* wire);
void Unpack(WireFormat format, const void* wire, absl::Span<float> values);
void UnpackAdd(WireFormat format, const void* wire, absl::Span<float> sum);
// To the values that the wire can carry, in place; a second time changes nothing.
void RoundTo(WireFormat format, absl::Span<float> values);
// values[i] *= factor.
void Scale(absl::Span<float> values, float factor);

}  // namespace rubato

#endif  // RUBATO_RING_KERNELS_H_
