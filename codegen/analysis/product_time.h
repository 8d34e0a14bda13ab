// The time of a launch whose programs sum up products in loops.
#pragma once

namespace tegula {

/// The work of one block, in clocks of its multiprocessor.
struct ProductWork {
  double steps = 0;          ///< iterations of loops around products, and of these all together:
  double tensor_clocks = 0;  ///< of the tensor cores at the maker's rate
  double shared_bytes = 0;   ///< that these read of shared memory
  double copied_bytes = 0;   ///< that copies bring
  double ahead = 0;          ///< iterations that copies run ahead, times iterations
  double fills = 0;          ///< loads before and after the loops that wait for memory
  double other_clocks = 0;   ///< of a thread's way through all else
};

struct ProductLaunch {
  ProductWork longest;  ///< of all blocks
  double share = 1;     ///< of it that a block does on average
  double blocks = 1;    ///< of the launch
  int blocks_of_program = 1;
  int groups_of_block = 1;      ///< of warps, which take tiles in turns
  double sms = 1, all_sms = 1;  ///< multiprocessors that blocks find place on, and all
  double resident = 1;          ///< blocks that a multiprocessor has room for
  double clock = 1;             ///< Hz
  double memory_seconds = 0;    ///< of what comes from memory and goes there
  double l2_bytes = 0;          ///< through the L2 cache, of the launch
  double issue_seconds = 0;     ///< of instructions beside the products
};

/// Seconds.
struct ProductTime {
  double memory = 0, compute = 0, waits = 0;  ///< what each would take alone
  double all = 0;
};

ProductTime product_time(const ProductLaunch& launch);

}  // namespace tegula
