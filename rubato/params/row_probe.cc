#include "rubato/params/row_probe.h"

#ifdef __x86_64__
#include <immintrin.h>
#ifndef __clang__  // gcc 12 warns of its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

#include <algorithm>
#include <bit>

#include "rubato/params/partition.h"

namespace rubato {
namespace {

// How far ahead of its use a group is asked for, and into which cache. The first has few places for
// lines on their way, and asking for more than those stops the processor.
struct Far {
  static constexpr size_t kAhead = 64;
  static void Fetch(const RowGroup* group) { __builtin_prefetch(group, 0, 1); }
};
struct Near {
  static constexpr size_t kAhead = 32;
  static void Fetch(const RowGroup* group) { __builtin_prefetch(group, 0, 3); }
};

// Without a branch, and the compiler must not see one in it: an id in ten is not at its home, and
// a processor that guessed wrong has to wait for the line before it knows.
inline uint32_t NumberAt(const RowGroup& group, uint32_t match) {
  const uint32_t number = group.rows[std::countr_zero(match | 1u << (RowGroup::kSlots - 1))];
  return number | (0u - uint32_t{match == 0});
}

// One probe of many keys. `match` answers the number of a key in a group, or UINT32_MAX.
template <typename Reach, typename Match1>
[[gnu::always_inline]] inline size_t ProbeAll(const RowGroup* groups, const uint64_t* keys,
                                              const uint32_t* homes, size_t count,
                                              uint32_t open_from, uint32_t* numbers, uint32_t* open,
                                              Match1 match) {
  size_t open_count = 0;
  const auto probe = [&](size_t i) __attribute__((always_inline)) {
    numbers[i] = match(groups[homes[i]], keys[i]);
    open[open_count] = static_cast<uint32_t>(i);
    open_count += numbers[i] >= open_from;
  };
  for (size_t i = 0; i < count && i < Reach::kAhead; ++i) Reach::Fetch(&groups[homes[i]]);
  size_t i = 0;
  for (; i + Reach::kAhead < count; ++i) {
    Reach::Fetch(&groups[homes[i + Reach::kAhead]]);
    probe(i);
  }
  for (; i < count; ++i) probe(i);

  for (size_t k = 0; k < open_count; ++k) Reach::Fetch(&groups[homes[open[k]]] + 1);
  size_t left = 0;
  for (size_t k = 0; k < open_count; ++k) {
    const uint32_t o = open[k];
    const uint32_t number = std::min(numbers[o], match(*(&groups[homes[o]] + 1), keys[o]));
    numbers[o] = number;
    open[left] = o;
    left += number >= open_from;
  }
  return left;
}

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

template <typename Reach>
size_t ProbePlain(const RowGroup* groups, const uint64_t* keys, const uint32_t* homes, size_t count,
                  uint32_t open_from, uint32_t* numbers, uint32_t* open) {
  return ProbeAll<Reach>(
      groups, keys, homes, count, open_from, numbers, open,
      [](const RowGroup& group, uint64_t key) { return NumberAt(group, group.Match(key)); });
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

RUBATO_AVX512 inline uint32_t Match1(const RowGroup& group, uint64_t key) {
  const __m512i keys = _mm512_set1_epi64(static_cast<int64_t>(key));
  const uint32_t match = _mm512_cmpeq_epi64_mask(_mm512_load_si512(&group), keys);
  return NumberAt(group, _bzhi_u32(match, group.count));
}

template <typename Reach>
RUBATO_AVX512 size_t ProbeAvx512(const RowGroup* groups, const uint64_t* keys,
                                 const uint32_t* homes, size_t count, uint32_t open_from,
                                 uint32_t* numbers, uint32_t* open) {
  return ProbeAll<Reach>(groups, keys, homes, count, open_from, numbers, open, Match1);
}

constexpr RowProbeKernels kRowProbeAvx512 = {PlaceAvx512, ProbeAvx512<Far>, ProbeAvx512<Near>};
#endif

}  // namespace

const RowProbeKernels kRowProbePlain = {PlacePlain, ProbePlain<Far>, ProbePlain<Near>};

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

bool ReadsNear() {
#ifdef __x86_64__
  static const bool near = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
  }();
  return near;
#else
  return false;
#endif
}

}  // namespace rubato
