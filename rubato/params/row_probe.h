// The inner loops of looking up many ids at once, once for any processor and once for AVX-512.
//
//     ids ──Place──▶ keys and homes ──Probe──▶ row numbers, and which are still open
//
// Place works out where each id belongs, Probe looks there and in the group behind, with the memory
// of later ones on its way. What lies beyond, or nowhere, stays open: RowIndex finds those one by
// one.
#ifndef RUBATO_PARAMS_ROW_PROBE_H_
#define RUBATO_PARAMS_ROW_PROBE_H_

#include <cstddef>
#include <cstdint>

namespace rubato {

// A cache line of RowIndex.
struct alignas(64) RowGroup {
  static constexpr uint32_t kSlots = 5;

  uint64_t keys[kSlots];
  uint32_t rows[kSlots];
  uint32_t count;  // Slots [0, count) are taken.

  // A bit for the slot that holds `key`, or 0. Without a branch, since any slot is as likely.
  uint32_t Match(uint64_t key) const {
    uint32_t match = 0;
    for (uint32_t i = 0; i < kSlots; ++i) match |= uint32_t{keys[i] == key} << i;
    return match & ((1u << count) - 1);
  }
};
static_assert(sizeof(RowGroup) == 64);

// The group in which the search for `key` begins, of `groups` in all.
inline uint64_t PlaceOf(uint64_t key, uint64_t groups) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(key) * groups) >> 64);
}

// How ids become homes at this moment.
struct RowPlaces {
  const RowGroup* groups = nullptr;
  uint64_t frontier = 0;  // Keys below it lie as in `groups_now`, the others as in `groups_next`.
  uint64_t groups_now = 1;
  uint64_t groups_next = 1;
  // By partition, and two numbers more, which are read and not used.
  const uint16_t* slots = nullptr;
};

struct RowProbeKernels {
  // Homes must fit 32 bits. May write up to seven keys and homes beyond the last.
  void (*place)(const RowPlaces& places, const uint64_t* ids, size_t count, uint64_t* keys,
                uint32_t* homes);
  // numbers[i] is what lies at the home of keys[i] or in the group behind, or UINT32_MAX. Lists in
  // `open`, which has room for one more than all, those whose number is at least `open_from`;
  // answers how many they are.
  using Probe = size_t (*)(const RowGroup* groups, const uint64_t* keys, const uint32_t* homes,
                           size_t count, uint32_t open_from, uint32_t* numbers, uint32_t* open);
  Probe probe;
  Probe probe_near;  // The same, with memory asked for into the first cache.
};

// For any processor, and the best for this one: they answer alike.
extern const RowProbeKernels kRowProbePlain;
const RowProbeKernels& BestRowProbe();

// Whether memory that is only read is better asked for into the first cache than into the second,
// as on AMD's processors (docs/design/0003-tables.md).
bool ReadsNear();

}  // namespace rubato

#endif  // RUBATO_PARAMS_ROW_PROBE_H_
