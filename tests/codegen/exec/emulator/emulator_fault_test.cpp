// The emulator: what it says of kernels that do wrong, and that the device goes on afterwards.
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

TEST(EmulatorFault, ReportsAccessOutOfBoundsAndGoesOn) {
  auto device = make_emulator();
  auto kernel = device->load(make_image(kAddParams, kAdd, 4));
  Array<float> x(*device, iota(1024)), y(*device, iota(1021)), z(*device, 1024);
  uint64_t past = y.address() + 4 * 1021;
  std::string text = error_of_launch(*kernel, {8}, x.address(), y.address(), z.address(), 1024);
  EXPECT_EQ(text, fmt::format("kernel 'k': out-of-bounds read of 4 bytes at {:#x}, 0 bytes past the end of a 4084-byte "
                              "allocation (argument 'y')\n  at k.py:2:5, program (7, 0, 0), thread 125",
                              past));
  // A write, 12 bytes past the end.
  text = error_of_launch(*kernel, {9}, x.address(), x.address(), y.address() + 15, 1);
  EXPECT_CONTAINS(text, "misaligned write of 4 bytes");
  EXPECT_CONTAINS(text, "which is not a multiple of 4\n  at k.py:3:5, program (0, 0, 0), thread 0");
  text = error_of_launch(*kernel, {1}, x.address(), x.address(), past + 12, 1);
  EXPECT_CONTAINS(text, "out-of-bounds write of 4 bytes");
  EXPECT_CONTAINS(text,
                  "12 bytes past the end of a 4084-byte allocation; the argument 'z' points to no memory of the "
                  "device: an array without elements, or memory of the host?\n");
  text = error_of_launch(*kernel, {1}, x.address() - 8, x.address(), z.address(), 1);
  EXPECT_CONTAINS(text, "8 bytes before the start of a 4096-byte allocation");
  text = error_of_launch(*kernel, {1}, uint64_t(0), x.address(), z.address(), 1);
  EXPECT_CONTAINS(text, "near the null pointer; the argument 'x' is null\n");
  // Nearer to the argument than to the array, of which it is therefore no access.
  text = error_of_launch(*kernel, {1}, z.address() - 8, x.address(), z.address(), 1);
  EXPECT_CONTAINS(text, "8 bytes before the start of a 4096-byte allocation; the argument 'x' points to no memory");
  Array<float> none(*device, std::vector<float>());
  text = error_of_launch(*kernel, {1}, x.address(), none.address(), z.address(), 1);
  EXPECT_CONTAINS(
      text,
      "; the argument 'y' points to no memory of the device: an array without elements, or memory of the host?\n");

  launch(*kernel, {8}, x.address(), x.address(), z.address(), 1024);
  EXPECT_EQ(z.values()[1023], 2046);
}

// What memory holds in place of an address has nothing to do with the array that happens to be the nearest.
TEST(EmulatorFault, ReportsPointersFromMemory) {
  auto device = make_emulator();
  auto kernel = device->load(make_image({pointer("x", Elem::I64)}, R"(
  %a = call i64 @tegula.hw.ld_global_b64(ptr addrspace(1) %x, i64 0, i1 true, i32 1)
  %p = inttoptr i64 %a to ptr addrspace(1)
  %v = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %p, i32 0, i1 true, i32 2)
  ret void)"));
  const auto error_at = [&](int64_t distance) {
    Array<int64_t> x(*device, 6);
    const int64_t address = int64_t(x.address()) + distance;
    device->copy_to_device(x.address(), &address, sizeof address);
    return error_of_launch(*kernel, {1}, x.address());
  };
  for (int64_t distance : {225136, -225136})
    EXPECT_CONTAINS(
        error_at(distance),
        ", which lies in no array of the launch nor near one; a pointer that is made of numbers may lead to "
        "memory of the device alone\n  at k.py:2:5");
  EXPECT_CONTAINS(error_at(60), "12 bytes past the end of a 48-byte allocation (argument 'x')\n  at k.py:2:5");
  EXPECT_EQ(error_at(0), "no error");
}

TEST(EmulatorFault, ReportsFreedMemory) {
  auto device = make_emulator();
  auto kernel = device->load(make_image(kAddParams, kAdd, 4));
  Array<float> x(*device, iota(128));
  uint64_t freed = device->allocate(1 << 20);
  device->free(freed);
  EXPECT_CONTAINS(error_of_launch(*kernel, {1}, freed, x.address(), x.address(), 128),
                  "in a 1048576-byte allocation that was freed");
  EXPECT_CONTAINS(error_of([&] { device->fill(freed, 0, 16); }), "fill of 16 bytes at");
  EXPECT_CONTAINS(error_of([&] { device->copy_to_device(x.address(), &freed, 513); }),
                  "its last 1 bytes past the end of a 512-byte allocation");
}

TEST(EmulatorFault, ReportsVectorAccessOverTheEnd) {
  auto device = make_emulator();
  auto kernel = device->load(make_image({pointer("x"), scalar("at", Elem::I64)}, R"(
  %p = getelementptr i8, ptr addrspace(1) %x, i64 %at
  call void @tegula.hw.st_global_v4b32(ptr addrspace(1) %p, i32 0, i32 0, i32 0, i32 0, i1 true, i32 4)
  ret void)"));
  Array<float> x(*device, iota(6));
  EXPECT_CONTAINS(error_of_launch(*kernel, {1}, x.address(), int64_t(16)),
                  "its last 8 bytes past the end of a 24-byte allocation (argument 'x')\n  at k.py:4:5");
  EXPECT_CONTAINS(
      error_of_launch(*kernel, {1}, x.address(), int64_t(8)),
      "misaligned write of 16 bytes at " + fmt::format("{:#x}", x.address() + 8) + ", which is not a multiple of 16");
  launch(*kernel, {1}, x.address(), int64_t(0));
  EXPECT_EQ(x.values()[3], 0);
}

TEST(EmulatorFault, HostArraysMustBeRegistered) {
  auto device = make_emulator();
  auto kernel = device->load(make_image(kAddParams, kAdd, 4));
  std::vector<float> x = iota(100), z(100);
  uint64_t xa = reinterpret_cast<uint64_t>(x.data()), za = reinterpret_cast<uint64_t>(z.data());
  EXPECT_CONTAINS(error_of_launch(*kernel, {1}, xa, xa, za, 100), "out-of-bounds read of 4 bytes");
  device->register_host_range(x.data(), 400);
  device->register_host_range(x.data() + 10, 40);
  device->register_host_range(z.data(), 400);
  launch(*kernel, {1}, xa, xa, za, 100);
  EXPECT_EQ(z[99], 198);
  device->unregister_host_range(x.data());
  EXPECT_CONTAINS(error_of_launch(*kernel, {1}, xa, xa, za, 100), "out-of-bounds read of 4 bytes");
  EXPECT_CONTAINS(error_of([&] { device->unregister_host_range(x.data()); }), "is registered");
}

TEST(EmulatorFault, ReportsSharedAccessOutOfBounds) {
  auto device = make_emulator();
  KernelImage image = make_image({pointer("out", Elem::I32)}, kReverse, 4, 508);
  auto kernel = device->load(image);
  Array<int> out(*device, 128);
  EXPECT_EQ(error_of_launch(*kernel, {1}, out.address()),
            "kernel 'k': out-of-bounds write of 4 bytes in shared memory at offset 508; the program has 508 bytes\n"
            "  at k.py:1:5, program (0, 0, 0), thread 127");
  auto misaligned = device->load(make_image({}, R"(
  %base = call i32 @tegula.hw.shared_base()
  %a = add i32 %base, 8
  %v = call {i32, i32, i32, i32} @tegula.hw.ld_shared_v4b32(i32 %a, i32 6)
  ret void)",
                                            1, 64));
  EXPECT_CONTAINS(
      error_of_launch(*misaligned, {1}),
      "misaligned read of 16 bytes in shared memory at offset 8, which is not a multiple of 16\n  at k.py:6:5");
  // ldmatrix: the row that a lane names, and that lane.
  auto matrix = device->load(make_image({}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %base = call i32 @tegula.hw.shared_base()
  %o = mul i32 %t, 16
  %a = add i32 %base, %o
  %v = call {i32, i32, i32, i32} @tegula.hw.ldmatrix_x4(i32 %a, i32 6)
  ret void)",
                                        1, 480));
  EXPECT_CONTAINS(error_of_launch(*matrix, {1}), "at offset 480; the program has 480 bytes");
  EXPECT_CONTAINS(error_of_launch(*matrix, {1}), "thread 30");
}

// Of a cluster of two blocks.
std::string error_in_cluster(const std::string& body, int64_t shared_bytes = 64) {
  auto device = make_emulator();
  KernelImage image = make_image({}, body, 1, shared_bytes, R"(
declare i32 @tegula.hw.block_of_cluster()
declare i32 @tegula.hw.address_in_block(i32, i32)
declare void @tegula.hw.cluster_arrive(i32) convergent
declare void @tegula.hw.cluster_wait(i32) convergent
declare void @tegula.hw.st_cluster_b32(i32, i32, i1, i32)
declare i32 @tegula.hw.ld_cluster_b32(i32, i32)
declare void @tegula.hw.mbarrier_init(i32, i32, i1, i32)
declare void @tegula.hw.mbarrier_arrive_expect(i32, i32, i1, i32)
declare void @tegula.hw.mbarrier_wait_cluster(i32, i32, i32) convergent
declare void @tegula.hw.st_async_b32(i32, i32, i32, i1, i32)
declare void @tegula.hw.mbarrier_arrive_cluster(i32, i1, i32)
declare void @tegula.hw.bulk_copy_multicast_2d(i32, i64, i32, i32, i32, i16, i1, i32))");
  image.num_ctas = 2;
  return error_of_launch(*device->load(image), {1});
}

TEST(EmulatorFault, ReportsMisuseOfClusters) {
  constexpr const char* kBarrier =
      "  call void @tegula.hw.cluster_arrive(i32 1)\n  call void @tegula.hw.cluster_wait(i32 2)\n";
  auto store = [](const char* block, int offset) {
    return fmt::format(
        "  %base = call i32 @tegula.hw.shared_base()\n  %own = add i32 %base, {}\n"
        "  %to = call i32 @tegula.hw.address_in_block(i32 %own, i32 {})\n"
        "  call void @tegula.hw.st_cluster_b32(i32 %to, i32 1, i1 true, i32 3)\n",
        offset, block);
  };
  EXPECT_EQ(error_in_cluster(kBarrier + store("1", 0) + kBarrier + "  ret void"), "no error");
  EXPECT_EQ(
      error_in_cluster(store("1", 0) + "  ret void"),
      "kernel 'k': a store to shared memory of block 1 of the cluster, of which nobody knows that it has begun; a "
      "barrier of the cluster is missing before\n  at k.py:3:5, program (0, 0, 0), block 0, thread 0");
  EXPECT_CONTAINS(error_in_cluster(kBarrier + store("1", 64) + "  ret void"),
                  "kernel 'k': out-of-bounds write of 4 bytes in shared memory at offset 64; the program has 64 bytes\n"
                  "  at k.py:3:5, program (0, 0, 0), block ");
  EXPECT_EQ(error_in_cluster(store("2", 0) + "  ret void"),
            "kernel 'k': an address in block 2 of the cluster, which has 2\n"
            "  at an unknown source place, program (0, 0, 0), block 0, thread 0");
  EXPECT_EQ(
      error_in_cluster("  call void @tegula.hw.cluster_arrive(i32 1)\n  call void @tegula.hw.cluster_arrive(i32 2)\n"
                       "  ret void"),
      "kernel 'k': a thread arrives twice at a barrier of the cluster; a cluster_wait is missing between\n"
      "  at k.py:2:5, program (0, 0, 0), block 0, thread 0");
  EXPECT_EQ(error_in_cluster("  call void @tegula.hw.cluster_wait(i32 2)\n  ret void"),
            "kernel 'k': a thread waits at a barrier of the cluster at which it has not arrived\n"
            "  at k.py:2:5, program (0, 0, 0), block 0, thread 0");
  EXPECT_EQ(error_in_cluster("  call void @tegula.hw.cluster_arrive(i32 2)\n  ret void"),
            "kernel 'k': a thread ends that has arrived at a barrier of the cluster and not waited there\n"
            "  at an unknown source place, program (0, 0, 0), block 0, thread 0");
  // Block 1 ends, block 0 goes on.
  const std::string first = std::string(kBarrier) + R"(  %b = call i32 @tegula.hw.block_of_cluster()
  %c = icmp eq i32 %b, 0
  br i1 %c, label %low, label %end
low:
  call void @tegula.hw.barrier(i32 4)
)";
  EXPECT_CONTAINS(error_in_cluster(first + kBarrier + store("1", 0) + "  br label %end\nend:\n  ret void"),
                  "kernel 'k': a store to shared memory of block 1 of the cluster, which has ended\n"
                  "  at k.py:3:5, program (0, 0, 0), block 0, thread ");
  auto load = [](const char* block, int offset) {
    return fmt::format(
        "  %base = call i32 @tegula.hw.shared_base()\n  %own = add i32 %base, {}\n"
        "  %from = call i32 @tegula.hw.address_in_block(i32 %own, i32 {})\n"
        "  %v = call i32 @tegula.hw.ld_cluster_b32(i32 %from, i32 3)\n",
        offset, block);
  };
  EXPECT_EQ(error_in_cluster(kBarrier + load("1", 0) + kBarrier + "  ret void"), "no error");
  EXPECT_EQ(
      error_in_cluster(load("1", 0) + "  ret void"),
      "kernel 'k': a load from shared memory of block 1 of the cluster, of which nobody knows that it has begun; a "
      "barrier of the cluster is missing before\n  at k.py:3:5, program (0, 0, 0), block 0, thread 0");
  EXPECT_CONTAINS(error_in_cluster(kBarrier + load("1", 64) + "  ret void"),
                  "kernel 'k': out-of-bounds read of 4 bytes in shared memory at offset 64; the program has 64 bytes\n"
                  "  at k.py:3:5, program (0, 0, 0), block ");
  EXPECT_CONTAINS(error_in_cluster(first + kBarrier + load("1", 0) + "  br label %end\nend:\n  ret void"),
                  "kernel 'k': a load from shared memory of block 1 of the cluster, which has ended\n"
                  "  at k.py:3:5, program (0, 0, 0), block 0, thread ");
  // Arrivals at the barrier of a block, and bulk copies to it.
  auto arrive = [](const char* block) {
    return fmt::format(
        "  %base = call i32 @tegula.hw.shared_base()\n"
        "  %to = call i32 @tegula.hw.address_in_block(i32 %base, i32 {})\n"
        "  call void @tegula.hw.mbarrier_arrive_cluster(i32 %to, i1 true, i32 3)\n",
        block);
  };
  EXPECT_EQ(error_in_cluster(arrive("1") + "  ret void"),
            "kernel 'k': an arrival at an mbarrier of block 1 of the cluster, of which nobody knows that it has begun; "
            "a barrier of the cluster is missing before\n  at k.py:3:5, program (0, 0, 0), block 0, thread 0");
  EXPECT_CONTAINS(error_in_cluster(first + kBarrier + arrive("1") + "  br label %end\nend:\n  ret void"),
                  "kernel 'k': an arrival at an mbarrier of block 1 of the cluster, which has ended\n  at k.py:3:5");
  EXPECT_CONTAINS(error_in_cluster(kBarrier + arrive("1") + kBarrier + "  ret void"),
                  "the mbarrier at offset 0 of shared memory is used, but not initialised");
  auto multicast = [](int blocks) {
    return fmt::format(
        "  %base = call i32 @tegula.hw.shared_base()\n  call void @tegula.hw.bulk_copy_multicast_2d(i32 %base, i64 0, "
        "i32 %base, i32 0, i32 0, i16 {}, i1 true, i32 3)\n",
        blocks);
  };
  EXPECT_EQ(error_in_cluster(multicast(3) + "  ret void"),
            "kernel 'k': a bulk copy to shared memory of block 1 of the cluster, of which nobody knows that it has "
            "begun; a barrier of the cluster is missing before\n"
            "  at k.py:3:5, program (0, 0, 0), block 0, thread 0");
  EXPECT_CONTAINS(error_in_cluster(first + kBarrier + multicast(2) + "  br label %end\nend:\n  ret void"),
                  "kernel 'k': a bulk copy to shared memory of block 1 of the cluster, which has ended\n  at k.py:3:5");
  EXPECT_CONTAINS(error_in_cluster(kBarrier + multicast(4) + "  ret void"),
                  "kernel 'k': a bulk copy to block 2, which is none of the cluster\n  at k.py:3:5");
  EXPECT_CONTAINS(error_in_cluster(kBarrier + multicast(3) + "  ret void"),
                  "a bulk copy takes a tensor map that is none of the launch's");
  // Half of block 0 waits for a phase that never ends.
  EXPECT_EQ(error_in_cluster(R"(  %b = call i32 @tegula.hw.block_of_cluster()
  %c = icmp eq i32 %b, 0
  %t = call i32 @tegula.hw.thread_id()
  %d = icmp eq i32 %t, 31
  %e = and i1 %c, %d
  br i1 %e, label %low, label %high
low:
  call void @tegula.hw.barrier(i32 4)
  br label %end
high:
)" + std::string(kBarrier) + "  br label %end\nend:\n  ret void"),
            "kernel 'k': deadlock: threads 0-30 wait in cluster_wait at k.py:2:5; thread 31 waits in barrier at "
            "k.py:4:5\n  in program (0, 0, 0), block 0\n  program (0, 0, 0), block 1: all threads wait in cluster_wait "
            "at k.py:2:5");
}

TEST(EmulatorFault, ReportsMisuseOfAsynchronousStores) {
  // The last thread of each block stores to block 1, to words of their own, whose barrier at offset 0 expects
  // `expected` bytes.
  auto body = [](int expected, int to, const char* more) {
    return fmt::format(R"(  %base = call i32 @tegula.hw.shared_base()
  %t = call i32 @tegula.hw.thread_id()
  %last = icmp eq i32 %t, 31
  %b = call i32 @tegula.hw.block_of_cluster()
  %second = icmp eq i32 %b, 1
  %there = call i32 @tegula.hw.address_in_block(i32 %base, i32 1)
  %from = mul i32 %b, 4
  %first = add i32 %there, {}
  %to = add i32 %first, %from
  %own = add i32 %base, {}
  call void @tegula.hw.mbarrier_init(i32 %base, i32 1, i1 %last, i32 1)
  call void @tegula.hw.cluster_arrive(i32 2)
  call void @tegula.hw.cluster_wait(i32 2)
  call void @tegula.hw.mbarrier_arrive_expect(i32 %base, i32 {}, i1 %last, i32 3)
  call void @tegula.hw.st_async_b32(i32 %to, i32 7, i32 %there, i1 %last, i32 4)
{}  br i1 %second, label %wait, label %end
wait:
  call void @tegula.hw.mbarrier_wait_cluster(i32 %base, i32 0, i32 5)
  br label %end
end:
  ret void)",
                       to, to, expected, more);
  };
  EXPECT_EQ(error_in_cluster(body(8, 16, "")), "no error");
  EXPECT_CONTAINS(error_in_cluster(body(4, 16, "")),
                  "bring more than the 4 bytes that the phase of the mbarrier at offset 0 of shared memory expects");
  EXPECT_CONTAINS(
      error_in_cluster(body(12, 16, "")),
      "wait in mbarrier_wait_cluster at k.py:5:5 for parity 0 of the mbarrier at offset 0, whose phase has 1 "
      "of 1 arrivals and 8 of 12 bytes");
  EXPECT_CONTAINS(error_in_cluster(body(8, 16, "  call i32 @tegula.hw.ld_shared_b32(i32 %own, i32 6)\n")),
                  "a read of shared memory at offset 16, which a bulk copy issued at k.py:4:5 writes; a wait for its "
                  "phase is missing\n  at k.py:6:5, program (0, 0, 0), block 1");
  EXPECT_CONTAINS(error_in_cluster(body(8, 64, "")), "out-of-bounds write of 4 bytes in shared memory at offset 6");
}

// Threads below 16 go one way, the others the other.
std::string branch(const std::string& low, const std::string& high) {
  return fmt::format(R"(
entry:
  %t = call i32 @tegula.hw.thread_id()
  %c = icmp slt i32 %t, 16
  br i1 %c, label %low, label %high
low:
{}
  br label %end
high:
{}
  br label %end
end:
  ret void)",
                     low, high);
}

TEST(EmulatorFault, ReportsDivergence) {
  auto device = make_emulator();
  auto barriers = device->load(make_image({}, branch("  call void @tegula.hw.barrier(i32 3)",  //
                                                     "  call void @tegula.hw.barrier(i32 7)")));
  EXPECT_EQ(
      error_of_launch(*barriers, {1}),
      "kernel 'k': threads part ways where they must go together: thread 0 is in barrier at k.py:3:5, thread 16 in "
      "barrier at k.py:7:5; a condition that differs between threads stands around one of them\n"
      "  in program (0, 0, 0)");
  // The same source place, but two calls in the code.
  auto same = device->load(make_image({}, branch("  call void @tegula.hw.barrier(i32 3)",  //
                                                 "  call void @tegula.hw.barrier(i32 3)")));
  EXPECT_CONTAINS(error_of_launch(*same, {1}), "threads part ways");
  auto shuffles = device->load(make_image({}, branch("  %a = call i32 @tegula.hw.shfl_bfly_b32(i32 %t, i32 1)",
                                                     "  %b = call i32 @tegula.hw.shfl_idx_b32(i32 %t, i32 1)")));
  std::string text = error_of_launch(*shuffles, {1});
  EXPECT_CONTAINS(text, "shfl_bfly_b32 at an unknown source place");
  EXPECT_CONTAINS(text, "shfl_idx_b32 at an unknown source place");
}

TEST(EmulatorFault, PlacesOfShufflesComeFromDebugInformation) {
  auto device = make_emulator();
  KernelImage image = make_image({}, branch("  %a = call i32 @tegula.hw.shfl_bfly_b32(i32 %t, i32 1), !dbg !9",
                                            "  %b = call i32 @tegula.hw.shfl_bfly_b32(i32 %t, i32 2), !dbg !10"));
  std::string message = error_of_launch(*device->load(with_places(image, "row.py", {{12, 3}, {14, 7}})), {1});
  EXPECT_CONTAINS(message, "thread 0 is in shfl_bfly_b32 at row.py:12:3, thread 16 in shfl_bfly_b32 at row.py:14:7");
}

TEST(EmulatorFault, ReportsDeadlock) {
  auto device = make_emulator({.threads = 1});  // others would come to stand at the same place meanwhile
  auto exits = device->load(make_image({}, branch("  call void @tegula.hw.barrier(i32 3)", "")));
  EXPECT_EQ(error_of_launch(*exits, {3}),
            "kernel 'k': deadlock: threads 0-15 wait in barrier at k.py:3:5; threads 16-31 have left the kernel\n"
            "  in program (0, 0, 0)");
  auto both = device->load(make_image(
      {}, branch("  call void @tegula.hw.barrier(i32 3)", "  %b = call i32 @tegula.hw.shfl_idx_b32(i32 %t, i32 1)")));
  EXPECT_CONTAINS(error_of_launch(*both, {1}),
                  "threads 0-15 wait in barrier at k.py:3:5; threads 16-31 wait in shfl_idx_b32 at");
  // The device goes on.
  auto kernel = device->load(make_image({pointer("out", Elem::I32)}, kReverse, 4, 512));
  Array<int> out(*device, 128);
  launch(*kernel, {1}, out.address());
  EXPECT_EQ(out.values()[0], 127);
}

TEST(EmulatorFault, AFaultEndsProgramsThatWouldWaitForEver) {
  auto device = make_emulator({.threads = 2});
  auto kernel = device->load(make_image({pointer("flag", Elem::I32)}, R"(
entry:
  %pid = call i32 @tegula.hw.program_id_x()
  %bad = icmp eq i32 %pid, 1
  call void @tegula.hw.st_global_b32(ptr addrspace(1) null, i32 1, i1 %bad, i32 5)
  br label %spin
spin:
  %v = call i32 @tegula.hw.ld_global_b32.volatile(ptr addrspace(1) %flag, i32 0, i1 true, i32 2)
  %go = icmp ne i32 %v, 0
  br i1 %go, label %done, label %spin
done:
  ret void)"));
  Array<int> flag(*device, 1);
  EXPECT_CONTAINS(error_of_launch(*kernel, {4}, flag.address()), "at k.py:5:5, program (1, 0, 0), thread 0");
}

TEST(EmulatorFault, RefusesImagesThatItCannotRun) {
  auto device = make_emulator({.target = "sm_80"});
  auto message = [&](KernelImage image) { return error_of([&] { device->load(std::move(image)); }); };
  EXPECT_CONTAINS(message(make_image({}, "  ret void", 33)), "33 warps; a program has 1 to 32");
  EXPECT_CONTAINS(message(make_image({}, "  ret void", 1, 200000)),
                  "needs 200000 bytes of shared memory; a program of sm_80 has 166912");
  EXPECT_CONTAINS(message(make_image({}, "  nonsense")), "its code is damaged");
  EXPECT_CONTAINS(message(make_image({},
                                     "  %x = call i32 @tegula.hw.atom_add_bf16x2(ptr addrspace(1) null, i32 0, "
                                     "i1 false, i32 0)\n  ret void")),
                  "it uses atom_add_bf16x2, which sm_80 does not have");
  KernelImage other = make_image({scalar("n")}, "  ret void");
  other.params[0].elem = Elem::I64;
  EXPECT_CONTAINS(message(other), "argument 1 'n' is i64 in its image, but i32 in its code");
  other.kernel = "m";
  EXPECT_CONTAINS(message(other), "kernel 'm' cannot run on the emulator: its code has no function of that name");
  KernelImage stranger = make_image({}, "  call void @stranger()\n  ret void");
  std::string text(stranger.bitcode.begin(), stranger.bitcode.end());
  text += "\ndeclare void @stranger()\n";
  stranger.bitcode.assign(text.begin(), text.end());
  EXPECT_CONTAINS(message(stranger), "it calls 'stranger', which the emulator does not have");
  text.replace(text.find("declare i32 @tegula.hw.thread_id()"), 34, "declare i64 @tegula.hw.thread_id()");
  text.replace(text.find("  call void @stranger()"), 23, "  call i64 @tegula.hw.thread_id()");
  stranger.bitcode.assign(text.begin(), text.end());
  EXPECT_CONTAINS(message(stranger), "'tegula.hw.thread_id' is declared as i64 (), expected i32 ()");
  KernelImage assembly = make_image({}, "  call void asm sideeffect \"bar.sync 0;\", \"\"()\n  ret void");
  EXPECT_CONTAINS(message(assembly), "it has inline PTX");
  EXPECT_CONTAINS(error_of([] { make_emulator({.target = "sm_1"}); }),
                  "the emulator knows no target 'sm_1'; it knows sm_80");
}

}  // namespace
}  // namespace tegula
