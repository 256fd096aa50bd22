#include "rubato/adapters/torch/engine.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rubato {
namespace {

// A BLAS we do not know by name must do this: the reference BLAS gives 3 to 6, tuned ones 50 and
// more on the machines of the last ten years.
constexpr double kGflopsMin = 20;

bool KnownToBeFast(absl::string_view blas) {
  for (const char* name : {"openblas", "mkl", "blis", "atlas"}) {
    if (absl::StrContains(blas, name)) return true;
  }
  return false;
}

double ThreadCpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double MeasureGflops() {
  constexpr int64_t kSize = 256;
  const torch::Tensor a = torch::ones({kSize, kSize}), b = torch::ones({kSize, kSize});
  torch::Tensor c = torch::empty({kSize, kSize});
  double best = 1e9;
  for (int round = 0; round < 4; ++round) {
    const double start = ThreadCpuSeconds();
    torch::mm_out(c, a, b);
    best = std::min(best, ThreadCpuSeconds() - start);
  }
  return 2.0 * kSize * kSize * kSize / best * 1e-9;
}

// Which library multiplies matrices: the file that gives sgemm, and OpenBLAS's own words.
std::string NameBlas() {
  std::string name = "unknown BLAS";
  Dl_info info;
  if (void* sgemm = dlsym(RTLD_DEFAULT, "sgemm_"); sgemm && dladdr(sgemm, &info)) {
    char* path = realpath(info.dli_fname, nullptr);
    name = path != nullptr ? path : info.dli_fname;
    std::free(path);
  }
  using Config = char* (*)();
  const auto config = reinterpret_cast<Config>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  if (config != nullptr && name.find("openblas") != std::string::npos) {
    name = absl::StrCat(config(), " (", name, ")");
  }
  return name;
}

// A step frees and asks again for the same megabytes: keep them, and on huge pages. The block
// below is carved out of the heap and given back to it, which leaves the advice in place.
void KeepMemory() {
  constexpr size_t kHuge = size_t{2} << 20;
  constexpr size_t kHeap = size_t{128} << 20;
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  void* block = std::malloc(kHeap);
  if (block == nullptr) return;
  const auto begin = (reinterpret_cast<uintptr_t>(block) + kHuge - 1) / kHuge * kHuge;
  madvise(reinterpret_cast<void*>(begin), kHeap - kHuge, MADV_HUGEPAGE);
  std::free(block);
}

absl::StatusOr<std::string> Prepare() {
  KeepMemory();
  torch::set_num_threads(1);
  using SetThreads = void (*)(int);
  const auto set_threads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_threads != nullptr) set_threads(1);
  const std::string blas = NameBlas();
  const double gflops = MeasureGflops();
  if (!KnownToBeFast(blas) && gflops < kGflopsMin) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "matrices multiply at %.1f GFLOP/s with %s, as with the reference BLAS, which trains 30 "
        "times slower: install libopenblas0-pthread, or choose it with update-alternatives",
        gflops, blas));
  }
  return absl::StrFormat("libtorch %s, %s, %.0f GFLOP/s, 1 thread", TORCH_VERSION, blas, gflops);
}

}  // namespace

absl::StatusOr<std::string> PrepareEngine() {
  static const absl::StatusOr<std::string>* const engine =
      new absl::StatusOr<std::string>(Prepare());
  return *engine;
}

}  // namespace rubato
