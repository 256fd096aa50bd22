#include "rubato/params/row_probe.h"

#ifdef __x86_64__
#include <immintrin.h>
#ifndef __clang__  // gcc 12 warns of its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

#include <bit>

#include "rubato/params/partition.h"

namespace rubato {
namespace {

// How far ahead of its use a group is asked for. Into the second cache: the first has few places
// for lines on their way, and asking for more than those stops the processor.
constexpr size_t kAhead = 64;
inline void Fetch(const RowGroup* group) { __builtin_prefetch(group, 0, 1); }

inline void FetchFirst(const RowGroup* groups, const uint32_t* homes, size_t count) {
  for (size_t i = 0; i < count && i < kAhead; ++i) Fetch(&groups[homes[i]]);
}

// Open ids are searched from their home on: the group behind it will be next.
inline void FetchBehind(const RowGroup* groups, const uint32_t* homes, const uint32_t* open,
                        size_t open_count) {
  for (size_t k = 0; k < open_count; ++k) __builtin_prefetch(&groups[homes[open[k]]] + 1);
}

// Without a branch, and the compiler must not see one in it: an id in ten is not at its home, and
// a processor that guessed wrong has to wait for the line before it knows.
inline uint32_t NumberAt(const RowGroup& group, uint32_t match) {
  const uint32_t number = group.rows[std::countr_zero(match | 1u << (RowGroup::kSlots - 1))];
  return number | (0u - uint32_t{match == 0});
}

// Where a probe writes what it found.
struct Found {
  uint32_t* numbers;
  uint32_t* open;
  uint32_t open_from;
  size_t open_count = 0;

  void Add(size_t i, uint32_t number) {
    numbers[i] = number;
    open[open_count] = static_cast<uint32_t>(i);
    open_count += number >= open_from;
  }
};

void PlacePlain(const RowPlaces& places, const uint64_t* ids, size_t count, uint64_t* keys,
                uint32_t* homes) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t point = PointOf(ids[i]);
    const uint64_t key =
        FirstPoint(places.slots[PartitionOf(point)]) | (point & (FirstPoint(1) - 1));
    keys[i] = key;
    homes[i] = static_cast<uint32_t>(
        PlaceOf(key, key < places.frontier ? places.groups_now : places.groups_next));
  }
}

size_t ProbePlain(const RowGroup* groups, const uint64_t* keys, const uint32_t* homes, size_t count,
                  uint32_t open_from, uint32_t* numbers, uint32_t* open) {
  Found found = {numbers, open, open_from};
  const auto probe = [&](size_t i) {
    const RowGroup& group = groups[homes[i]];
    found.Add(i, NumberAt(group, group.Match(keys[i])));
  };
  FetchFirst(groups, homes, count);
  size_t i = 0;
  for (; i + kAhead < count; ++i) {
    Fetch(&groups[homes[i + kAhead]]);
    probe(i);
  }
  for (; i < count; ++i) probe(i);
  FetchBehind(groups, homes, open, found.open_count);
  return found.open_count;
}

#ifdef __x86_64__
#define RUBATO_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,bmi,bmi2")))

RUBATO_AVX512 inline __m512i Mix8(__m512i x) {
  x = _mm512_add_epi64(x, _mm512_set1_epi64(static_cast<int64_t>(0x9e3779b97f4a7c15u)));
  x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 30)),
                         _mm512_set1_epi64(static_cast<int64_t>(0xbf58476d1ce4e5b9u)));
  x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 27)),
                         _mm512_set1_epi64(static_cast<int64_t>(0x94d049bb133111ebu)));
  return _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
}

// The upper half of 64 by 32 bits.
RUBATO_AVX512 inline __m512i Place8(__m512i keys, __m512i groups) {
  const __m512i low = _mm512_srli_epi64(_mm512_mul_epu32(keys, groups), 32);
  const __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(keys, 32), groups);
  return _mm512_srli_epi64(_mm512_add_epi64(low, high), 32);
}

RUBATO_AVX512 void PlaceAvx512(const RowPlaces& places, const uint64_t* ids, size_t count,
                               uint64_t* keys, uint32_t* homes) {
  if (places.groups_next > UINT32_MAX) return PlacePlain(places, ids, count, keys, homes);
  const __m512i frontier = _mm512_set1_epi64(static_cast<int64_t>(places.frontier));
  const __m512i now = _mm512_set1_epi64(static_cast<int64_t>(places.groups_now));
  const __m512i next = _mm512_set1_epi64(static_cast<int64_t>(places.groups_next));
  const __m512i within = _mm512_set1_epi64(static_cast<int64_t>(FirstPoint(1) - 1));
  const __m256i half = _mm256_set1_epi32(0xffff);
  for (size_t i = 0; i < count; i += 8) {
    const auto some = static_cast<__mmask8>(count - i < 8 ? (1u << (count - i)) - 1 : 0xff);
    const __m512i points = Mix8(_mm512_maskz_loadu_epi64(some, ids + i));
    const __m512i partitions = _mm512_srli_epi64(points, 54);
    const __m256i slots =
        _mm256_and_si256(_mm512_i64gather_epi32(partitions, places.slots, 2), half);
    const __m512i key = _mm512_or_si512(_mm512_and_si512(points, within),
                                        _mm512_slli_epi64(_mm512_cvtepu32_epi64(slots), 54));
    const __mmask8 old = _mm512_cmplt_epu64_mask(key, frontier);
    const __m512i home = Place8(key, _mm512_mask_mov_epi64(next, old, now));
    _mm512_storeu_si512(keys + i, key);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(homes + i), _mm512_cvtepi64_epi32(home));
  }
}

RUBATO_AVX512 inline uint32_t Probe1(const RowGroup& group, uint64_t key) {
  const __m512i keys = _mm512_set1_epi64(static_cast<int64_t>(key));
  const uint32_t match = _mm512_cmpeq_epi64_mask(_mm512_load_si512(&group), keys);
  return NumberAt(group, _bzhi_u32(match, group.count));
}

RUBATO_AVX512 size_t ProbeAvx512(const RowGroup* groups, const uint64_t* keys,
                                 const uint32_t* homes, size_t count, uint32_t open_from,
                                 uint32_t* numbers, uint32_t* open) {
  Found found = {numbers, open, open_from};
  FetchFirst(groups, homes, count);
  size_t i = 0;
  for (; i + kAhead < count; ++i) {
    Fetch(&groups[homes[i + kAhead]]);
    found.Add(i, Probe1(groups[homes[i]], keys[i]));
  }
  for (; i < count; ++i) found.Add(i, Probe1(groups[homes[i]], keys[i]));
  FetchBehind(groups, homes, open, found.open_count);
  return found.open_count;
}

constexpr RowProbeKernels kRowProbeAvx512 = {PlaceAvx512, ProbeAvx512};
#endif

}  // namespace

const RowProbeKernels kRowProbePlain = {PlacePlain, ProbePlain};

const RowProbeKernels& BestRowProbe() {
  static const RowProbeKernels& best = []() -> const RowProbeKernels& {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("bmi2")) {
      return kRowProbeAvx512;
    }
#endif
    return kRowProbePlain;
  }();
  return best;
}

}  // namespace rubato
