#include "rubato/schedule/mip.h"

#include <coin/Cbc_C_Interface.h>
#include <dlfcn.h>

#include <memory>
#include <string>

namespace rubato {
namespace {

// Where the BLAS under Cbc is OpenBLAS, its threads wait by yielding, which on a busy machine turns
// a millisecond's solve into seconds; one thread has nobody to wait for.
void UseOneBlasThread() {
  using SetThreads = void (*)(int);
  static const auto set =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(1);
}

}  // namespace

absl::StatusOr<std::vector<double>> Solve(const Mip& mip, int nodes_max, double gap) {
  UseOneBlasThread();
  const std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> model(Cbc_newModel(), Cbc_deleteModel);
  Cbc_setLogLevel(model.get(), 0);
  Cbc_setParameter(model.get(), "log", "0");
  Cbc_setParameter(model.get(), "maxNodes", std::to_string(nodes_max).c_str());
  // Cuts, preprocessing and heuristics cost more than they save on programmes this small.
  for (const char* off : {"cuts", "preprocess", "heuristicsOnOff"}) {
    Cbc_setParameter(model.get(), off, "off");
  }
  Cbc_setAllowableGap(model.get(), gap);
  Cbc_setObjSense(model.get(), -1);
  for (const Mip::Variable& variable : mip.variables) {
    Cbc_addCol(model.get(), "", 0, variable.max, variable.worth, variable.integer ? 1 : 0, 0,
               nullptr, nullptr);
  }
  for (const Mip::Row& row : mip.rows) {
    std::vector<int> columns;
    std::vector<double> factors;
    for (const auto& [column, factor] : row.terms) {
      columns.push_back(column);
      factors.push_back(factor);
    }
    Cbc_addRow(model.get(), "", static_cast<int>(columns.size()), columns.data(), factors.data(),
               'L', row.limit);
  }
  Cbc_solve(model.get());
  const double* best = Cbc_getColSolution(model.get());
  if (best == nullptr || Cbc_isProvenInfeasible(model.get())) {
    return absl::InternalError("the integer programme has no solution");
  }
  return std::vector<double>(best, best + mip.variables.size());
}

}  // namespace rubato
