// What the programs of a launch take of a GPU: bytes, instructions, exchanges, steps of products. The cost model
// (analysis/cost) turns this into time.
#pragma once

#include <map>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/cost.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/ir/ir.h"
#include "codegen/target/target.h"

namespace tegula {

/// The work of programs.
struct Work {
  double read = 0, written = 0, shared = 0, read_traffic = 0, write_traffic = 0;  ///< bytes
  double flops = 0, special = 0, dot_flops = 0, tensor_flops = 0;
  double slots = 0, special_slots = 0, wavefronts = 0;  ///< of an SM's issue; clocks of its accesses
  double steps = 0, rounds = 0;                         ///< of one thread; of loads that wait for each other
  double shuffles = 0, exchange = 0, cluster_exchange = 0;
  double product_steps = 0;                                  ///< iterations of loops around products; of these:
  double step_tensor = 0, step_shared = 0, step_copied = 0;  ///< clocks of tensor cores; bytes
  double step_ahead = 0;                                     ///< iterations that copies run ahead, summed up
  double split = 0;                                          ///< bytes of second lines that copies touch
  double fills = 0;                                          ///< rounds of loads before and after all loops

  void scale(double by) {
    for (double Work::*sum : kAll) this->*sum *= by;
  }
  void add(const Work& other, double by) {
    for (double Work::*sum : kAll) this->*sum += other.*sum * by;
  }

 private:
  static constexpr double Work::*kAll[] = {
      &Work::read,          &Work::written,          &Work::shared,        &Work::read_traffic, &Work::write_traffic,
      &Work::flops,         &Work::special,          &Work::dot_flops,     &Work::tensor_flops, &Work::slots,
      &Work::special_slots, &Work::wavefronts,       &Work::steps,         &Work::rounds,       &Work::shuffles,
      &Work::exchange,      &Work::cluster_exchange, &Work::product_steps, &Work::step_tensor,  &Work::step_shared,
      &Work::step_copied,   &Work::step_ahead,       &Work::split,         &Work::fills};
};

/// The bytes of an array that one program accesses.
struct ArrayBytes {
  double read = 0, written = 0;
};

struct WorkOfPrograms {
  Work mean;                                      ///< of one program
  Work one_group;                                 ///< likewise: what its first group of warps does
  Work longest, one_group_of_longest;             ///< both of the program with the most steps
  Work last;                                      ///< what the last program to come does after all others
  std::map<const ir::Value*, ArrayBytes> arrays;  ///< by the parameter that pointers come from; null: several
};

/// Counts the work of a sample of the programs. `values` and `registers` belong to the function and these inputs.
WorkOfPrograms count_work(const ir::Func& func, const Target& target, const CostInputs& inputs,
                          const AxisAnalysis& axis, LaunchValues& values, RegisterPressure& registers);

}  // namespace tegula
