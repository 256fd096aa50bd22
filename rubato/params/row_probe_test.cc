#include "rubato/params/row_probe.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/params/memory.h"
#include "rubato/params/partition.h"
#include "rubato/params/row_index.h"

namespace rubato {
namespace {

constexpr uint32_t kOpenFrom = UINT32_MAX - 65536;

// What one set of kernels makes of some ids.
struct Looked {
  std::vector<uint64_t> keys;
  std::vector<uint32_t> homes, numbers, open;
  friend bool operator==(const Looked&, const Looked&) = default;
};

Looked Look(const RowProbeKernels& kernels, const RowPlaces& places,
            const std::vector<uint64_t>& ids, RowProbeKernels::Probe probe) {
  const size_t n = ids.size();
  Looked looked{.keys = std::vector<uint64_t>(n + 7),
                .homes = std::vector<uint32_t>(n + 7),
                .numbers = std::vector<uint32_t>(n),
                .open = std::vector<uint32_t>(n + 1)};
  kernels.place(places, ids.data(), n, looked.keys.data(), looked.homes.data());
  looked.keys.resize(n);
  looked.homes.resize(n);
  looked.open.resize(probe == nullptr
                         ? 0
                         : probe(places.groups, looked.keys.data(), looked.homes.data(), n,
                                 kOpenFrom, looked.numbers.data(), looked.open.data()));
  return looked;
}

std::array<uint16_t, kPartitions + 2> Slots() {
  std::array<uint16_t, kPartitions + 2> slots{};
  for (size_t p = 0; p < kPartitions; ++p) {  // Another order than the partitions'.
    slots[p] = static_cast<uint16_t>((p * 5 + 3) % kPartitions);
  }
  return slots;
}

// How many rows lay at their home, in the group behind it, and beyond.
struct Lay {
  int64_t home = 0, behind = 0, beyond = 0;
};

// Whether all kernels say the same of `ids`, and what they say is what Find says.
void Compare(const RowIndex& index, const uint16_t* slots, const std::vector<uint64_t>& ids,
             Lay* lay) {
  const RowPlaces places = index.places(slots);
  const Looked looked = Look(kRowProbePlain, places, ids, kRowProbePlain.probe);
  for (const RowProbeKernels* kernels : {&kRowProbePlain, &BestRowProbe()}) {
    EXPECT_EQ(looked, Look(*kernels, places, ids, kernels->probe));
    EXPECT_EQ(looked, Look(*kernels, places, ids, kernels->probe_near));
  }
  size_t open = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint32_t found = index.Find(looked.keys[i]);
    const bool is_open = open < looked.open.size() && looked.open[open] == i;
    open += is_open;
    if (!is_open) {
      EXPECT_EQ(looked.numbers[i], found);
      EXPECT_LT(found, kOpenFrom);
    }
    const bool at_home = places.groups[looked.homes[i]].Match(looked.keys[i]) != 0;
    if (found < kOpenFrom) ++(is_open ? lay->beyond : at_home ? lay->home : lay->behind);
  }
  EXPECT_EQ(open, looked.open.size());
}

// In the midst of a stretch or not, and after rows went, whose keys may still lie about.
TEST(RowProbeTest, AllSayWhatFindSays) {
  SystemMemory memory(/*huge_pages=*/false);
  auto index = RowIndex::Make(memory, 20000, 1);
  ASSERT_TRUE(index.ok());
  const auto slots = Slots();
  const auto key_of = [&](uint64_t id) {
    return Look(kRowProbePlain, index->places(slots.data()), {id}, nullptr).keys[0];
  };
  Rng rng(7);
  std::vector<uint64_t> known;
  Lay lay;
  for (uint32_t row = 0; row < 6000; ++row) {
    known.push_back(rng.Next());
    index->Insert(key_of(known.back()), row % 10 == 0 ? kOpenFrom + 3 : row);  // Some are counted.
    if (row % 37 != 0) continue;
    std::vector<uint64_t> ids;
    for (uint64_t i = rng.Below(200); i > 0; --i) {
      ids.push_back(rng.Below(4) == 0 ? rng.Next() : known[rng.Below(known.size())]);
    }
    Compare(*index, slots.data(), ids, &lay);
  }
  EXPECT_GT(lay.home, 0);
  EXPECT_GT(lay.behind, 0);
  EXPECT_GT(lay.beyond, 0);  // Else this saw only the easy ones.
  for (size_t i = 0; i < known.size(); i += 2) index->Erase(key_of(known[i]));
  Compare(*index, slots.data(), known, &lay);
}

// A server with few of all partitions counts its groups as if it had all: beyond 32 bits.
TEST(RowProbeTest, ManyGroups) {
  std::array<uint16_t, kPartitions + 2> slots{};
  for (size_t p = 0; p < kPartitions; ++p) slots[p] = p % 2 == 0 ? 0 : kPartitions;
  Rng rng(8);
  std::vector<uint64_t> ids(1003);
  for (uint64_t& id : ids) id = rng.Next();
  for (const uint64_t groups : {uint64_t{1}, uint64_t{1} << 31, uint64_t{3'000'000'000},
                                uint64_t{0xffffffff}, uint64_t{1} << 33}) {
    const RowPlaces places = {.frontier = uint64_t{1} << 53,
                              .groups_now = groups,
                              .groups_next = groups + groups / 5,
                              .slots = slots.data()};
    const Looked looked = Look(BestRowProbe(), places, ids, nullptr);
    EXPECT_EQ(looked, Look(kRowProbePlain, places, ids, nullptr)) << groups;
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint64_t now = looked.keys[i] < places.frontier ? groups : places.groups_next;
      ASSERT_EQ(looked.homes[i], PlaceOf(looked.keys[i], now));
      ASSERT_EQ(looked.keys[i], PointOf(ids[i]) & (FirstPoint(1) - 1));
    }
  }
}

}  // namespace
}  // namespace rubato
