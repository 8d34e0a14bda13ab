// The emulator on kernels written by hand in LLVM IR, as lowering emits them.
#include "codegen/exec/emulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "codegen/exec/emulator/soft_float.h"

namespace tegula {
namespace {

constexpr const char* kDeclarations = R"(
declare i32 @tegula.hw.thread_id()
declare i32 @tegula.hw.program_id_x()
declare i32 @tegula.hw.program_id_y()
declare i32 @tegula.hw.program_id_z()
declare i32 @tegula.hw.num_programs_x()
declare i32 @tegula.hw.num_programs_y()
declare i32 @tegula.hw.num_programs_z()
declare i32 @tegula.hw.shared_base()
declare void @tegula.hw.barrier(i32) convergent
declare i32 @tegula.hw.shfl_bfly_b32(i32, i32) convergent
declare i32 @tegula.hw.shfl_idx_b32(i32, i32) convergent
declare i16 @tegula.hw.ld_global_b8(ptr addrspace(1), i16, i1, i32)
declare i16 @tegula.hw.ld_global_b16(ptr addrspace(1), i16, i1, i32)
declare i32 @tegula.hw.ld_global_b32(ptr addrspace(1), i32, i1, i32)
declare i32 @tegula.hw.ld_global_b32.volatile(ptr addrspace(1), i32, i1, i32)
declare i64 @tegula.hw.ld_global_b64(ptr addrspace(1), i64, i1, i32)
declare {i32, i32} @tegula.hw.ld_global_v2b32(ptr addrspace(1), i32, i32, i1, i32)
declare {i32, i32, i32, i32} @"tegula.hw.ld_global_v4b32.ca.L1::evict_last"(ptr addrspace(1), i32, i32, i32, i32, i1, i32)
declare void @tegula.hw.st_global_b8(ptr addrspace(1), i16, i1, i32)
declare void @tegula.hw.st_global_b16(ptr addrspace(1), i16, i1, i32)
declare void @tegula.hw.st_global_b32(ptr addrspace(1), i32, i1, i32)
declare void @tegula.hw.st_global_b64(ptr addrspace(1), i64, i1, i32)
declare void @tegula.hw.st_global_v2b32(ptr addrspace(1), i32, i32, i1, i32)
declare void @tegula.hw.st_global_v4b32(ptr addrspace(1), i32, i32, i32, i32, i1, i32)
declare i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1), i32, i1, i32)
declare i64 @tegula.hw.atom_add_i64(ptr addrspace(1), i64, i1, i32)
declare half @tegula.hw.atom_add_f16(ptr addrspace(1), half, i1, i32)
declare bfloat @tegula.hw.atom_add_bf16(ptr addrspace(1), bfloat, i1, i32)
declare float @tegula.hw.atom_add_f32(ptr addrspace(1), float, i1, i32)
declare double @tegula.hw.atom_add_f64(ptr addrspace(1), double, i1, i32)
declare i32 @tegula.hw.ld_shared_b32(i32, i32)
declare {i32, i32, i32, i32} @tegula.hw.ld_shared_v4b32(i32, i32)
declare void @tegula.hw.st_shared_b16(i32, i16, i1, i32)
declare void @tegula.hw.st_shared_b32(i32, i32, i1, i32)
declare void @tegula.hw.st_shared_v4b32(i32, i32, i32, i32, i32, i1, i32)
declare {i32} @tegula.hw.ldmatrix_x1(i32, i32) convergent
declare {i32, i32, i32, i32} @tegula.hw.ldmatrix_x4(i32, i32) convergent
declare {i32, i32} @tegula.hw.ldmatrix_x2_trans(i32, i32) convergent
declare {float, float, float, float} @tegula.hw.mma_m16n8k16_f16(i32, i32, i32, i32, i32, i32, float, float, float, float) convergent
declare {float, float, float, float} @tegula.hw.mma_m16n8k16_bf16(i32, i32, i32, i32, i32, i32, float, float, float, float) convergent
declare float @tegula.hw.ex2_approx_f32(float)
declare float @tegula.hw.sqrt_approx_f32(float)
declare float @tegula.hw.rsqrt_approx_f32(float)
declare float @tegula.hw.div_full_f32(float, float)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.maxnum.f32(float, float)
declare half @tegula.hw.cvt_rz_f16_f32(float)
declare bfloat @tegula.hw.cvt_rz_bf16_f32(float)
)";

ImageParam pointer(const char* name, Elem elem = Elem::F32) { return {name, elem, true, 16}; }
ImageParam scalar(const char* name, Elem elem = Elem::I32) { return {name, elem, false, 1}; }

/// An image of kernel `k`, whose body is the text; sites 1 to 9 are lines 1 to 9 of k.py.
KernelImage make_image(std::vector<ImageParam> params, const std::string& body, int num_warps = 1,
                       int64_t shared_bytes = 0) {
  KernelImage image;
  image.kernel = "k";
  image.target = "sm_90a";
  image.params = std::move(params);
  image.num_warps = num_warps;
  image.shared_bytes = shared_bytes;
  for (int line = 0; line < 10; ++line) image.sites.push_back({line ? intern_file("k.py") : nullptr, line, 5, 0});
  std::string signature;
  for (const ImageParam& p : image.params) {
    static const std::map<Elem, const char*> types = {
        {Elem::I1, "i8"},    {Elem::I8, "i8"},     {Elem::I16, "i16"},    {Elem::I32, "i32"},    {Elem::I64, "i64"},
        {Elem::F16, "half"}, {Elem::F32, "float"}, {Elem::F64, "double"}, {Elem::BF16, "bfloat"}};
    signature += fmt::format("{}{} %{}", signature.empty() ? "" : ", ",
                             p.pointer ? "ptr addrspace(1)" : types.at(p.elem), p.name);
  }
  std::string text = fmt::format(
      "target triple = \"nvptx64-nvidia-cuda\"\n"
      "target datalayout = \"e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64\"\n{}\n"
      "define ptx_kernel void @k({}) #0 {{\n{}\n}}\n"
      "attributes #0 = {{ noinline \"target-cpu\"=\"sm_90a\" \"target-features\"=\"+ptx80\" }}\n",
      kDeclarations, signature, body);
  image.bitcode.assign(text.begin(), text.end());
  return image;
}

/// An array on the device.
template <class T>
class Array {
 public:
  Array(Device& device, std::vector<T> values) : device_(device), size_(values.size()) {
    address_ = device.allocate(size_ * sizeof(T));
    device.copy_to_device(address_, values.data(), size_ * sizeof(T));
  }
  Array(Device& device, size_t size) : Array(device, std::vector<T>(size)) {}
  ~Array() { device_.free(address_); }
  uint64_t address() const { return address_; }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    device_.copy_to_host(result.data(), address_, size_ * sizeof(T));
    return result;
  }

 private:
  Device& device_;
  size_t size_;
  uint64_t address_;
};

template <class... A>
void launch_on(LoadedKernel& kernel, StreamHandle stream, Grid grid, A... args) {
  void* pointers[] = {&args..., nullptr};
  kernel.launch(grid, pointers, stream);
}
template <class... A>
void launch(LoadedKernel& kernel, Grid grid, A... args) {
  launch_on(kernel, nullptr, grid, args...);
}
template <class... A>
std::string error_of_launch(LoadedKernel& kernel, Grid grid, A... args) {
  try {
    launch(kernel, grid, args...);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no error";
}
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no error";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

std::vector<float> iota(size_t n, float first = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

// z[i] = x[i] + y[i], i = 128 * program + thread < n
constexpr const char* kAdd = R"(
  %t = call i32 @tegula.hw.thread_id()
  %p = call i32 @tegula.hw.program_id_x()
  %b = mul i32 %p, 128
  %i = add i32 %b, %t
  %in = icmp slt i32 %i, %n
  %xp = getelementptr float, ptr addrspace(1) %x, i32 %i
  %yp = getelementptr float, ptr addrspace(1) %y, i32 %i
  %zp = getelementptr float, ptr addrspace(1) %z, i32 %i
  %xi = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %xp, i32 0, i1 %in, i32 1)
  %yi = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %yp, i32 0, i1 %in, i32 2)
  %xf = bitcast i32 %xi to float
  %yf = bitcast i32 %yi to float
  %s = fadd float %xf, %yf
  %si = bitcast float %s to i32
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %zp, i32 %si, i1 %in, i32 3)
  ret void)";
const std::vector<ImageParam> kAddParams = {pointer("x"), pointer("y"), pointer("z"), scalar("n")};

TEST(Emulator, AddsVectorsWithTail) {
  for (auto options : {EmulatorOptions{}, EmulatorOptions{.threads = 3, .seed = 7, .resident_programs = 4},
                       EmulatorOptions{.check_bounds = false}}) {
    auto device = make_emulator(options);
    auto kernel = device->load(make_image(kAddParams, kAdd, 4));
    for (int n : {1, 127, 128, 129, 10000}) {
      Array<float> x(*device, iota(n)), y(*device, iota(n, 5)), z(*device, n);
      launch(*kernel, {unsigned(n + 127) / 128}, x.address(), y.address(), z.address(), n);
      std::vector<float> result = z.values();
      for (int i = 0; i < n; ++i) ASSERT_EQ(result[i], 2 * i + 5) << n;
    }
  }
}

TEST(Emulator, ArgumentsOfEveryType) {
  auto device = make_emulator();
  auto kernel = device->load(make_image({pointer("out", Elem::F64), scalar("a", Elem::I1), scalar("b", Elem::I8),
                                         scalar("c", Elem::I16), scalar("d", Elem::I64), scalar("e", Elem::F16),
                                         scalar("f", Elem::BF16), scalar("g", Elem::F32), scalar("h", Elem::F64)},
                                        R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %a1 = uitofp i8 %a to double
  %b1 = sitofp i8 %b to double
  %c1 = sitofp i16 %c to double
  %d1 = sitofp i64 %d to double
  %e1 = fpext half %e to double
  %f1 = fpext bfloat %f to double
  %g1 = fpext float %g to double
  %s1 = fadd double %a1, %b1
  %s2 = fadd double %s1, %c1
  %s3 = fadd double %s2, %d1
  %s4 = fadd double %s3, %e1
  %s5 = fadd double %s4, %f1
  %s6 = fadd double %s5, %g1
  %s7 = fadd double %s6, %h
  %bits = bitcast double %s7 to i64
  call void @tegula.hw.st_global_b64(ptr addrspace(1) %out, i64 %bits, i1 %first, i32 1)
  ret void)"));
  Array<double> out(*device, 1);
  launch(*kernel, {1}, out.address(), uint8_t(1), int8_t(-3), int16_t(-500), int64_t(1) << 40, uint16_t(0x3E00),
         uint16_t(0x4020), 0.25f, 1e-3);
  EXPECT_EQ(out.values()[0], 1 - 3 - 500 + 0x1p40 + 1.5 + 2.5 + 0.25 + 1e-3);
}

TEST(Emulator, GridOfThreeDimensions) {
  auto device = make_emulator();
  // out[linear] = x + 100 y + 10000 z; the extents come from num_programs.
  auto kernel = device->load(make_image({pointer("out", Elem::I32)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %x = call i32 @tegula.hw.program_id_x()
  %y = call i32 @tegula.hw.program_id_y()
  %z = call i32 @tegula.hw.program_id_z()
  %nx = call i32 @tegula.hw.num_programs_x()
  %ny = call i32 @tegula.hw.num_programs_y()
  %nz = call i32 @tegula.hw.num_programs_z()
  %l1 = mul i32 %z, %ny
  %l2 = add i32 %l1, %y
  %l3 = mul i32 %l2, %nx
  %l = add i32 %l3, %x
  %y100 = mul i32 %y, 100
  %z10000 = mul i32 %z, 10000
  %v1 = add i32 %x, %y100
  %v2 = add i32 %v1, %z10000
  %nz6 = mul i32 %nz, 1000000
  %v = add i32 %v2, %nz6
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %l
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %v, i1 %first, i32 1)
  ret void)"));
  Array<int> out(*device, 3 * 5 * 7);
  launch(*kernel, {3, 5, 7}, out.address());
  std::vector<int> result = out.values();
  for (int i = 0; i < 105; ++i) EXPECT_EQ(result[i], i % 3 + i / 3 % 5 * 100 + i / 15 * 10000 + 7000000);
  EXPECT_CONTAINS(error_of_launch(*kernel, {1, 0, 1}, out.address()), "a grid of 1 x 0 x 1 programs");
}

TEST(Emulator, ShufflesSumAndBroadcast) {
  std::string body = R"(
  %t = call i32 @tegula.hw.thread_id()
  %v0 = mul i32 %t, %t
)";
  for (int i = 0; i < 5; ++i)
    body +=
        fmt::format("  %s{0} = call i32 @tegula.hw.shfl_bfly_b32(i32 %v{0}, i32 {1})\n  %v{2} = add i32 %v{0}, %s{0}\n",
                    i, 16 >> i, i + 1);
  body += R"(
  %r = call i32 @tegula.hw.shfl_idx_b32(i32 %t, i32 5)
  %q = mul i32 %r, 1000000
  %w = add i32 %v5, %q
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %w, i1 true, i32 1)
  ret void)";
  for (uint64_t seed : {0, 1, 2, 3}) {
    auto device = make_emulator({.seed = seed});
    auto kernel = device->load(make_image({pointer("out", Elem::I32)}, body, 2));
    Array<int> out(*device, 64);
    launch(*kernel, {1}, out.address());
    std::vector<int> result = out.values();
    for (int t = 0; t < 64; ++t) {
      int sum = 0;
      for (int i = t / 32 * 32; i < t / 32 * 32 + 32; ++i) sum += i * i;
      EXPECT_EQ(result[t], sum + 1000000 * (t / 32 * 32 + 5)) << t;
    }
  }
}

// Each thread leaves its number in shared memory and reads the one that stands opposite.
constexpr const char* kReverse = R"(
  %t = call i32 @tegula.hw.thread_id()
  %base = call i32 @tegula.hw.shared_base()
  %o = mul i32 %t, 4
  %a = add i32 %base, %o
  call void @tegula.hw.st_shared_b32(i32 %a, i32 %t, i1 true, i32 1)
  call void @tegula.hw.barrier(i32 2)
  %ro = sub i32 508, %o
  %ra = add i32 %base, %ro
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %ra, i32 3)
  %pid = call i32 @tegula.hw.program_id_x()
  %first = mul i32 %pid, 128
  %i = add i32 %first, %t
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %v, i1 true, i32 4)
  ret void)";

TEST(Emulator, ExchangesThroughSharedMemory) {
  for (uint64_t seed : {0, 5}) {
    auto device = make_emulator({.seed = seed});
    auto kernel = device->load(make_image({pointer("out", Elem::I32)}, kReverse, 4, 512));
    Array<int> out(*device, 128 * 50);
    launch(*kernel, {50}, out.address());
    std::vector<int> result = out.values();
    for (int i = 0; i < 128 * 50; ++i) ASSERT_EQ(result[i], 127 - i % 128);
  }
}

TEST(Emulator, SharedMemoryStartsPoisonedBelow4GiBAndAligned) {
  auto device = make_emulator({.threads = 1});
  auto kernel = device->load(make_image({pointer("out", Elem::I32)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %first = icmp eq i32 %t, 0
  %base = call i32 @tegula.hw.shared_base()
  %v = call i32 @tegula.hw.ld_shared_b32(i32 %base, i32 3)
  call void @tegula.hw.barrier(i32 2)
  call void @tegula.hw.st_shared_b32(i32 %base, i32 1, i1 true, i32 1)
  %pid = call i32 @tegula.hw.program_id_x()
  %i = mul i32 %pid, 2
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  call void @tegula.hw.st_global_v2b32(ptr addrspace(1) %p, i32 %v, i32 %base, i1 %first, i32 4)
  ret void)",
                                        1, 232448));
  Array<uint32_t> out(*device, 4);
  launch(*kernel, {2}, out.address());
  std::vector<uint32_t> result = out.values();
  EXPECT_EQ(result[0], 0xCDCDCDCD);
  EXPECT_EQ(result[2], 0xCDCDCDCD);
  EXPECT_NE(result[1], 0u);
  EXPECT_EQ(result[1] % (256 << 10), 0u);
}

TEST(Emulator, AccessesOfEveryWidth) {
  auto device = make_emulator();
  // Each thread copies its 31 bytes: 1 + 2 + 4 + 8 + 16 of five arrays that lie behind each other.
  auto kernel = device->load(make_image({pointer("in", Elem::U8), pointer("out", Elem::U8)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %a0 = getelementptr i8, ptr addrspace(1) %in, i32 %t
  %b0 = getelementptr i8, ptr addrspace(1) %out, i32 %t
  %v0 = call i16 @tegula.hw.ld_global_b8(ptr addrspace(1) %a0, i16 0, i1 true, i32 1)
  call void @tegula.hw.st_global_b8(ptr addrspace(1) %b0, i16 %v0, i1 true, i32 1)
  %x1 = getelementptr i8, ptr addrspace(1) %in, i32 32
  %y1 = getelementptr i8, ptr addrspace(1) %out, i32 32
  %a1 = getelementptr i16, ptr addrspace(1) %x1, i32 %t
  %b1 = getelementptr i16, ptr addrspace(1) %y1, i32 %t
  %v1 = call i16 @tegula.hw.ld_global_b16(ptr addrspace(1) %a1, i16 0, i1 true, i32 1)
  call void @tegula.hw.st_global_b16(ptr addrspace(1) %b1, i16 %v1, i1 true, i32 1)
  %x2 = getelementptr i8, ptr addrspace(1) %in, i32 96
  %y2 = getelementptr i8, ptr addrspace(1) %out, i32 96
  %a2 = getelementptr i32, ptr addrspace(1) %x2, i32 %t
  %b2 = getelementptr i32, ptr addrspace(1) %y2, i32 %t
  %v2 = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %a2, i32 0, i1 true, i32 1)
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %b2, i32 %v2, i1 true, i32 1)
  %x3 = getelementptr i8, ptr addrspace(1) %in, i32 224
  %y3 = getelementptr i8, ptr addrspace(1) %out, i32 224
  %a3 = getelementptr i64, ptr addrspace(1) %x3, i32 %t
  %b3 = getelementptr i64, ptr addrspace(1) %y3, i32 %t
  %v3 = call i64 @tegula.hw.ld_global_b64(ptr addrspace(1) %a3, i64 0, i1 true, i32 1)
  call void @tegula.hw.st_global_b64(ptr addrspace(1) %b3, i64 %v3, i1 true, i32 1)
  %x4 = getelementptr i8, ptr addrspace(1) %in, i32 480
  %y4 = getelementptr i8, ptr addrspace(1) %out, i32 480
  %a4 = getelementptr {i64, i64}, ptr addrspace(1) %x4, i32 %t
  %b4 = getelementptr {i64, i64}, ptr addrspace(1) %y4, i32 %t
  %even = trunc i32 %t to i1
  %v4 = call {i32, i32, i32, i32} @"tegula.hw.ld_global_v4b32.ca.L1::evict_last"(ptr addrspace(1) %a4, i32 11, i32 12, i32 13, i32 14, i1 %even, i32 1)
  %e0 = extractvalue {i32, i32, i32, i32} %v4, 0
  %e1 = extractvalue {i32, i32, i32, i32} %v4, 1
  %e2 = extractvalue {i32, i32, i32, i32} %v4, 2
  %e3 = extractvalue {i32, i32, i32, i32} %v4, 3
  call void @tegula.hw.st_global_v4b32(ptr addrspace(1) %b4, i32 %e0, i32 %e1, i32 %e2, i32 %e3, i1 true, i32 1)
  ret void)"));
  std::vector<uint8_t> in(992);
  std::mt19937 random(1);
  for (uint8_t& byte : in) byte = uint8_t(random());
  Array<uint8_t> x(*device, in), y(*device, in.size());
  launch(*kernel, {1}, x.address(), y.address());
  // Where the predicate of the last load is false, the given values.
  for (int t = 0; t < 32; t += 2)
    for (int e = 0; e < 4; ++e) {
      int given = 11 + e;
      std::memcpy(&in[480 + 16 * t + 4 * e], &given, 4);
    }
  EXPECT_EQ(y.values(), in);
}

// ---- Matrix instructions

std::string store_all(int n, const char* type) {
  std::string fields, text;
  for (int i = 0; i < n; ++i) fields += fmt::format("{}{}", i ? ", " : "", type);
  for (int i = 0; i < n; ++i) {
    text +=
        fmt::format("  %e{0} = extractvalue {{{1}}} %r, {0}\n  %b{0} = bitcast {2} %e{0} to i32\n", i, fields, type);
    text += fmt::format("  %o{0} = mul i32 %t, {1}\n  %i{0} = add i32 %o{0}, {0}\n", i, n);
    text += fmt::format("  %p{0} = getelementptr i32, ptr addrspace(1) %out, i32 %i{0}\n", i);
    text += fmt::format("  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p{0}, i32 %b{0}, i1 true, i32 1)\n", i);
  }
  return text + "  ret void";
}

TEST(Emulator, MultipliesMatrices) {
  for (bool half : {true, false}) {
    std::string body = "  %t = call i32 @tegula.hw.thread_id()\n";
    auto load = [&](const char* name, const char* array, int count) {
      for (int i = 0; i < count; ++i)
        body += fmt::format(
            "  %{0}o{1} = mul i32 %t, {3}\n  %{0}i{1} = add i32 %{0}o{1}, {1}\n"
            "  %{0}p{1} = getelementptr i32, ptr addrspace(1) %{2}, i32 %{0}i{1}\n"
            "  %{0}{1} = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %{0}p{1}, i32 0, i1 true, i32 1)\n",
            name, i, array, count);
    };
    load("a", "A", 4);
    load("b", "B", 2);
    load("c", "C", 4);
    for (int i = 0; i < 4; ++i) body += fmt::format("  %cf{0} = bitcast i32 %c{0} to float\n", i);
    body += fmt::format(
        "  %r = call {{float, float, float, float}} @tegula.hw.mma_m16n8k16_{}(i32 %a0, i32 %a1, i32 %a2, i32 %a3, "
        "i32 %b0, i32 %b1, float %cf0, float %cf1, float %cf2, float %cf3)\n",
        half ? "f16" : "bf16");
    std::string store = store_all(4, "float");
    for (const char* name : {"b0", "b1", "b2", "b3"}) {  // names of B's registers are taken
      std::string from = fmt::format("%{} ", name), to = fmt::format("%bits{} ", name);
      for (size_t at = 0; (at = store.find(from, at)) != std::string::npos;) store.replace(at, from.size(), to);
      from.back() = ',', to.back() = ',';
      for (size_t at = 0; (at = store.find(from, at)) != std::string::npos;) store.replace(at, from.size(), to);
    }
    auto device = make_emulator();
    auto kernel = device->load(
        make_image({pointer("A", Elem::I32), pointer("B", Elem::I32), pointer("C"), pointer("out")}, body + store));

    std::mt19937 random(3);
    auto value = [&] { return float(int(random() % 33) - 16) / 4; };
    auto bits = [&](float f) -> uint32_t { return half ? emulator::float_to_half(f) : emulator::float_to_bfloat(f); };
    float a[16][16], b[16][8], c[16][8];
    for (auto& row : a)
      for (float& f : row) f = value();
    for (auto& row : b)
      for (float& f : row) f = value();
    for (auto& row : c)
      for (float& f : row) f = value();
    std::vector<uint32_t> av(128), bv(64);
    std::vector<float> cv(128);
    for (int lane = 0; lane < 32; ++lane) {
      int g = lane / 4, p = lane % 4 * 2;
      av[lane * 4 + 0] = bits(a[g][p]) | bits(a[g][p + 1]) << 16;
      av[lane * 4 + 1] = bits(a[g + 8][p]) | bits(a[g + 8][p + 1]) << 16;
      av[lane * 4 + 2] = bits(a[g][p + 8]) | bits(a[g][p + 9]) << 16;
      av[lane * 4 + 3] = bits(a[g + 8][p + 8]) | bits(a[g + 8][p + 9]) << 16;
      bv[lane * 2 + 0] = bits(b[p][g]) | bits(b[p + 1][g]) << 16;
      bv[lane * 2 + 1] = bits(b[p + 8][g]) | bits(b[p + 9][g]) << 16;
      cv[lane * 4 + 0] = c[g][p], cv[lane * 4 + 1] = c[g][p + 1];
      cv[lane * 4 + 2] = c[g + 8][p], cv[lane * 4 + 3] = c[g + 8][p + 1];
    }
    Array<uint32_t> A(*device, av), B(*device, bv);
    Array<float> C(*device, cv), out(*device, 128);
    launch(*kernel, {1}, A.address(), B.address(), C.address(), out.address());
    std::vector<float> d = out.values();
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 4; ++r) {
        int i = lane / 4 + r / 2 * 8, j = lane % 4 * 2 + r % 2;
        float expected = c[i][j];
        for (int k = 0; k < 16; ++k) expected += a[i][k] * b[k][j];
        EXPECT_EQ(d[lane * 4 + r], expected) << i << " " << j;
      }
  }
}

TEST(Emulator, LoadsMatrices) {
  struct Case {
    const char* row;
    int n;
    bool transposed;
  };
  for (Case c : {Case{"ldmatrix_x1", 1, false}, Case{"ldmatrix_x4", 4, false}, Case{"ldmatrix_x2_trans", 2, true}}) {
    // Element (m, i, j), the j-th of row i of matrix m, holds 64 m + 8 i + j; rows lie in reverse order.
    std::string body = R"(
  %t = call i32 @tegula.hw.thread_id()
  %base = call i32 @tegula.hw.shared_base()
  %back = sub i32 31, %t
  %off = mul i32 %back, 16
  %row = add i32 %base, %off
)";
    for (int j = 0; j < 8; ++j)
      body += fmt::format(
          "  %v{0} = mul i32 %t, 8\n  %w{0} = add i32 %v{0}, {0}\n  %h{0} = trunc i32 %w{0} to i16\n"
          "  %a{0} = add i32 %row, {1}\n  call void @tegula.hw.st_shared_b16(i32 %a{0}, i16 %h{0}, i1 true, i32 1)\n",
          j, 2 * j);
    std::string fields = "i32";
    for (int i = 1; i < c.n; ++i) fields += ", i32";
    body += fmt::format("  call void @tegula.hw.barrier(i32 2)\n  %r = call {{{}}} @tegula.hw.{}(i32 %row, i32 3)\n",
                        fields, c.row);
    auto device = make_emulator();
    auto kernel = device->load(make_image({pointer("out", Elem::I32)}, body + store_all(c.n, "i32"), 1, 512));
    Array<uint32_t> out(*device, 32 * c.n);
    launch(*kernel, {1}, out.address());
    std::vector<uint32_t> result = out.values();
    for (int lane = 0; lane < 32; ++lane)
      for (int m = 0; m < c.n; ++m) {
        int i = lane / 4, j = lane % 4 * 2;
        uint32_t first = c.transposed ? 64 * m + 8 * j + i : 64 * m + 8 * i + j;
        uint32_t second = c.transposed ? first + 8 : first + 1;
        EXPECT_EQ(result[lane * c.n + m], first | second << 16) << c.row << " lane " << lane << " matrix " << m;
      }
  }
}

// ---- Atomics

TEST(Emulator, AddsAtomicallyFromManyPrograms) {
  struct Case {
    std::string row, type, one;
    int bytes;
    double (*read)(const uint8_t*);
    double expected;
  };
  auto as = []<class T>(T) {
    return +[](const uint8_t* p) {
      T v;
      std::memcpy(&v, p, sizeof v);
      return double(v);
    };
  };
  const Case cases[] = {
      {"atom_add_i32.acq_rel.gpu", "i32", "3", 4, as(int32_t()), 3 * 64 * 500},
      {"atom_add_i64", "i64", "8589934592", 8, as(int64_t()), 0x1p33 * 64 * 500},
      {"atom_add_f32", "float", "0.5", 4, as(float()), 0.5 * 64 * 500},
      {"atom_add_f64", "double", "0.25", 8, as(double()), 0.25 * 64 * 500},
      // The sum stops growing where a summand is below half a unit in the last place, which is the right result.
      {"atom_add_f16", "half", "1.0", 2,
       +[](const uint8_t* p) {
         uint16_t v;
         std::memcpy(&v, p, 2);
         return double(emulator::half_to_float(v));
       },
       2048},
      {"atom_add_bf16", "bfloat", "1.0", 2,
       +[](const uint8_t* p) {
         uint16_t v;
         std::memcpy(&v, p, 2);
         return double(emulator::bfloat_to_float(v));
       },
       256},
  };
  auto device = make_emulator();
  for (const Case& c : cases) {
    auto kernel = device->load(make_image(
        {pointer("sum", Elem::U8)},
        fmt::format("  %o = call {0} @tegula.hw.{1}(ptr addrspace(1) %sum, {0} {2}, i1 true, i32 1)\n"
                    "  %n = call {0} @tegula.hw.{1}(ptr addrspace(1) null, {0} {2}, i1 false, i32 1)\n  ret void",
                    c.type, c.row, c.one),
        2));
    Array<uint8_t> sum(*device, 16);
    launch(*kernel, {500}, sum.address());
    std::vector<uint8_t> bytes = sum.values();
    EXPECT_EQ(c.read(bytes.data()), c.expected) << c.row;
    EXPECT_EQ(bytes[c.bytes], 0) << c.row;
  }
}

TEST(Emulator, ProgramsMayWaitForEachOther) {
  auto device = make_emulator({.threads = 2});
  // Every thread arrives, then spins until all 8 x 32 have.
  auto kernel = device->load(make_image({pointer("count", Elem::I32)}, R"(
entry:
  %o = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %count, i32 1, i1 true, i32 1)
  br label %spin
spin:
  %v = call i32 @tegula.hw.ld_global_b32.volatile(ptr addrspace(1) %count, i32 0, i1 true, i32 2)
  %all = icmp eq i32 %v, 256
  br i1 %all, label %done, label %spin
done:
  ret void)"));
  Array<int> count(*device, 1);
  launch(*kernel, {8}, count.address());
  EXPECT_EQ(count.values()[0], 256);
}

TEST(Emulator, SeedGivesTheOrderOfThreads) {
  // Each thread takes the next number.
  auto order = [](uint64_t seed) {
    auto device = make_emulator({.threads = 1, .seed = seed});
    auto kernel = device->load(make_image({pointer("count", Elem::I32), pointer("out", Elem::I32)}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %o = call i32 @tegula.hw.atom_add_i32.acq_rel.gpu(ptr addrspace(1) %count, i32 1, i1 true, i32 1)
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %o, i1 true, i32 4)
  ret void)",
                                          2));
    Array<int> count(*device, 1), out(*device, 64);
    launch(*kernel, {1}, count.address(), out.address());
    return out.values();
  };
  std::vector<int> in_order(64);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_EQ(order(0), in_order);
  EXPECT_NE(order(1), in_order);
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Emulator, FramesMustFitTheStack) {
  auto device = make_emulator();
  // Many matrix instructions behind each other reuse one place on the stack.
  std::string body = "  %t = call i32 @tegula.hw.thread_id()\n  %f0 = bitcast i32 %t to float\n";
  for (int i = 0; i < 500; ++i)
    body += fmt::format(
        "  %r{0} = call {{float, float, float, float}} @tegula.hw.mma_m16n8k16_f16(i32 %t, i32 %t, i32 %t, i32 %t, i32 "
        "%t, i32 %t, float %f{0}, float %f{0}, float %f{0}, float %f{0})\n"
        "  %f{1} = extractvalue {{float, float, float, float}} %r{0}, 2\n",
        i, i + 1);
  EXPECT_EQ(error_of([&] { device->load(make_image({}, body + "  ret void")); }), "no error");
  EXPECT_CONTAINS(error_of([&] {
                    device->load(make_image({}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %a = alloca [70000 x i8]
  %p = getelementptr i8, ptr %a, i32 %t
  store volatile i8 0, ptr %p
  ret void)"));
                  }),
                  "bytes of stack a thread on the emulator, which gives 65536");
}

// ---- Faults

TEST(Emulator, ReportsAccessOutOfBoundsAndGoesOn) {
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
  EXPECT_CONTAINS(text, "12 bytes past the end of a 4084-byte allocation\n");
  text = error_of_launch(*kernel, {1}, x.address() - 8, x.address(), z.address(), 1);
  EXPECT_CONTAINS(text, "8 bytes before the start of a 4096-byte allocation");
  text = error_of_launch(*kernel, {1}, uint64_t(0), x.address(), z.address(), 1);
  EXPECT_CONTAINS(text, "near the null pointer");

  launch(*kernel, {8}, x.address(), x.address(), z.address(), 1024);
  EXPECT_EQ(z.values()[1023], 2046);
}

TEST(Emulator, ReportsFreedMemory) {
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

TEST(Emulator, ReportsVectorAccessOverTheEnd) {
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

TEST(Emulator, HostArraysMustBeRegistered) {
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

TEST(Emulator, ReportsSharedAccessOutOfBounds) {
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

TEST(Emulator, ReportsDivergence) {
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

TEST(Emulator, PlacesOfShufflesComeFromDebugInformation) {
  auto device = make_emulator();
  KernelImage image = make_image({}, branch("  %a = call i32 @tegula.hw.shfl_bfly_b32(i32 %t, i32 1), !dbg !9",
                                            "  %b = call i32 @tegula.hw.shfl_bfly_b32(i32 %t, i32 2), !dbg !10"));
  std::string text(image.bitcode.begin(), image.bitcode.end());
  text.replace(text.find(") #0 {"), 6, ") #0 !dbg !4 {");
  text += R"(
!llvm.module.flags = !{!0}
!llvm.dbg.cu = !{!1}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, emissionKind: LineTablesOnly)
!2 = !DIFile(filename: "row.py", directory: "")
!4 = distinct !DISubprogram(name: "k", scope: !2, file: !2, line: 1, type: !5, unit: !1, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{}
!9 = !DILocation(line: 12, column: 3, scope: !4)
!10 = !DILocation(line: 14, column: 7, scope: !4)
)";
  image.bitcode.assign(text.begin(), text.end());
  std::string message = error_of_launch(*device->load(image), {1});
  EXPECT_CONTAINS(message, "thread 0 is in shfl_bfly_b32 at row.py:12:3, thread 16 in shfl_bfly_b32 at row.py:14:7");
}

TEST(Emulator, ReportsDeadlock) {
  auto device = make_emulator();
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

TEST(Emulator, AFaultEndsProgramsThatWouldWaitForEver) {
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

TEST(Emulator, RefusesImagesThatItCannotRun) {
  auto device = make_emulator({.target = "sm_80"});
  auto message = [&](KernelImage image) { return error_of([&] { device->load(std::move(image)); }); };
  EXPECT_CONTAINS(message(make_image({}, "  ret void", 33)), "33 warps; a program has 1 to 32");
  EXPECT_CONTAINS(message(make_image({}, "  ret void", 1, 200000)),
                  "needs 200000 bytes of shared memory; a program of sm_80 has 166912");
  EXPECT_CONTAINS(message(make_image({}, "  nonsense")), "its code is damaged");
  EXPECT_CONTAINS(message(make_image({},
                                     "  %x = call bfloat @tegula.hw.atom_add_bf16(ptr addrspace(1) null, bfloat 0.0, "
                                     "i1 false, i32 0)\n  ret void")),
                  "it uses atom_add_bf16, which sm_80 does not have");
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

// ---- Conversions

/// Applies a conversion to one value per thread of 32-bit patterns.
std::vector<uint32_t> convert(EmulatorDevice& device, const std::string& expression, std::vector<uint32_t> in) {
  in.resize((in.size() + 31) / 32 * 32);
  auto kernel = device.load(make_image({pointer("in"), pointer("out")}, R"(
  %t = call i32 @tegula.hw.thread_id()
  %pid = call i32 @tegula.hw.program_id_x()
  %first = mul i32 %pid, 32
  %i = add i32 %first, %t
  %ip = getelementptr i32, ptr addrspace(1) %in, i32 %i
  %op = getelementptr i32, ptr addrspace(1) %out, i32 %i
  %x = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %ip, i32 0, i1 true, i32 1)
  %f = bitcast i32 %x to float
)" + expression + R"(
  call void @tegula.hw.st_global_b32(ptr addrspace(1) %op, i32 %y, i1 true, i32 1)
  ret void)"));
  Array<uint32_t> x(device, in), y(device, in.size());
  launch(*kernel, {unsigned(in.size() / 32)}, x.address(), y.address());
  return y.values();
}

/// The nearest value of a 16-bit format by search among all, ties to even. Independent of the code under test.
uint16_t nearest(double value, float (*widen)(uint16_t), uint16_t infinity) {
  static std::map<uint16_t, std::vector<double>> tables;
  auto& table = tables[infinity];
  if (table.empty())
    for (uint32_t bits = 0; bits <= infinity; ++bits) table.push_back(widen(uint16_t(bits)));
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  value = std::abs(value);
  // Where rounding is concerned, infinity stands where the next finite value would.
  table[infinity] = 2 * table[infinity - 1] - table[infinity - 2];
  uint16_t above = uint16_t(std::lower_bound(table.begin(), table.end(), value) - table.begin());
  if (above > infinity) return sign | infinity;
  if (above == 0 || table[above] == value) return sign | above;
  double up = table[above] - value, down = value - table[above - 1];
  bool take_up = up < down || (up == down && above % 2 == 0);
  return sign | uint16_t(take_up ? above : above - 1);
}

TEST(Emulator, ConvertsHalfAndBfloat) {
  for (bool baseline : {false, true}) {
    auto device = make_emulator({.baseline_cpu = baseline});
    std::vector<uint32_t> all(65536);
    std::iota(all.begin(), all.end(), 0);
    auto widened_half = convert(*device, R"(
  %h = trunc i32 %x to i16
  %hf = bitcast i16 %h to half
  %w = fpext half %hf to float
  %y = bitcast float %w to i32)",
                                all);
    auto widened_bfloat = convert(*device, R"(
  %h = trunc i32 %x to i16
  %hf = bitcast i16 %h to bfloat
  %w = fpext bfloat %hf to float
  %y = bitcast float %w to i32)",
                                  all);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      int exponent = bits >> 10 & 31, fraction = bits & 1023;
      double expected = exponent == 0    ? std::ldexp(fraction, -24)
                        : exponent == 31 ? (fraction ? NAN : INFINITY)
                                         : std::ldexp(1024 + fraction, exponent - 25);
      if (bits & 0x8000) expected = -expected;
      float half = std::bit_cast<float>(widened_half[bits]);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(half)) << bits;
      else
        EXPECT_EQ(half, expected) << bits;
      float bfloat = std::bit_cast<float>(bits << 16);
      if (!std::isnan(bfloat)) {
        EXPECT_EQ(widened_bfloat[bits], bits << 16);
      }
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(emulator::half_to_float(uint16_t(bits))));
      else
        EXPECT_EQ(emulator::half_to_float(uint16_t(bits)), expected) << bits;
    }

    std::vector<uint32_t> floats;
    std::mt19937 random(11);
    for (int i = 0; i < 20000; ++i) floats.push_back(uint32_t(random()));
    for (int i = 0; i < 20000; ++i)  // around half's range, half of them ties
      floats.push_back((uint32_t(random()) % 0x12000000 + 0x32000000) & (i % 2 ? ~0u : ~0xFFFu));
    for (uint32_t edge : {0x00000000u, 0x80000000u, 0x7F800000u, 0xFF800000u, 0x477FE000u, 0x477FEFFFu, 0x477FF000u,
                          0x33000000u, 0x33000001u, 0x33800000u, 0x38800000u, 0x387FFFFFu, 0x00000001u, 0x7F7FFFFFu,
                          0x7F7F7FFFu, 0x7F7F8000u, 0x00008000u, 0x00018000u})
      floats.push_back(edge);
    std::erase_if(floats, [](uint32_t bits) { return std::isnan(std::bit_cast<float>(bits)); });
    auto halves = convert(*device, R"(
  %h = fptrunc float %f to half
  %b = bitcast half %h to i16
  %y = zext i16 %b to i32)",
                          floats);
    auto halves_from_double = convert(*device, R"(
  %d = fpext float %f to double
  %e = fmul double %d, 0x3FF0000000000001
  %h = fptrunc double %e to half
  %b = bitcast half %h to i16
  %y = zext i16 %b to i32)",
                                      floats);
    auto bfloats = convert(*device, R"(
  %h = fptrunc float %f to bfloat
  %b = bitcast bfloat %h to i16
  %y = zext i16 %b to i32)",
                           floats);
    auto bfloats_from_double = convert(*device, R"(
  %d = fpext float %f to double
  %e = fmul double %d, 0x3FF0000000000001
  %h = fptrunc double %e to bfloat
  %b = bitcast bfloat %h to i16
  %y = zext i16 %b to i32)",
                                       floats);
    for (size_t i = 0; i < floats.size(); ++i) {
      double value = std::bit_cast<float>(floats[i]), more = value * 0x1.0000000000001p0;
      ASSERT_EQ(halves[i], nearest(value, emulator::half_to_float, 0x7C00)) << value;
      ASSERT_EQ(halves_from_double[i], nearest(more, emulator::half_to_float, 0x7C00)) << value;
      ASSERT_EQ(bfloats[i], nearest(value, emulator::bfloat_to_float, 0x7F80)) << value;
      ASSERT_EQ(bfloats_from_double[i], nearest(more, emulator::bfloat_to_float, 0x7F80)) << value;
    }
    // Toward zero.
    auto toward_zero = convert(*device, R"(
  %h = call half @tegula.hw.cvt_rz_f16_f32(float %f)
  %b = bitcast half %h to i16
  %y = zext i16 %b to i32)",
                               {0x3F801FFF, 0xBF801FFF, 0x477FF000, 0x7F800000, 0x7FC00000, 0x33FFFFFF});
    EXPECT_EQ(std::vector(toward_zero.begin(), toward_zero.begin() + 6),
              (std::vector<uint32_t>{0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0x7FFF, 0x0001}));
    auto bfloat_toward_zero = convert(*device, R"(
  %h = call bfloat @tegula.hw.cvt_rz_bf16_f32(float %f)
  %b = bitcast bfloat %h to i16
  %y = zext i16 %b to i32)",
                                      {0x3F80FFFF, 0xBF80FFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x0001FFFF});
    EXPECT_EQ(std::vector(bfloat_toward_zero.begin(), bfloat_toward_zero.begin() + 6),
              (std::vector<uint32_t>{0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0x7FFF, 0x0001}));
  }
}

TEST(Emulator, FastArithmetic) {
  auto device = make_emulator();
  std::vector<uint32_t> in;
  for (float x = -151; x < 129; x += 0.0137f) in.push_back(std::bit_cast<uint32_t>(x));
  for (float x : {0.0f, -0.0f, 1e-40f, -1e-40f, 128.0f, 127.99999f, -126.5f, -149.0f, -149.5f, -150.0f, -151.0f,
                  INFINITY, -INFINITY, 1e30f, -1e30f})
    in.push_back(std::bit_cast<uint32_t>(x));
  auto exp2 =
      convert(*device, "  %e = call float @tegula.hw.ex2_approx_f32(float %f)\n  %y = bitcast float %e to i32", in);
  for (size_t i = 0; i < in.size(); ++i) {
    double exact = std::exp2(double(std::bit_cast<float>(in[i])));
    float got = std::bit_cast<float>(exp2[i]), expected = float(exact);
    if (std::isinf(expected) || expected == 0)
      EXPECT_EQ(got, expected) << std::bit_cast<float>(in[i]);
    else
      EXPECT_LE(std::abs(int64_t(exp2[i]) - int64_t(std::bit_cast<uint32_t>(expected))), 1)
          << std::bit_cast<float>(in[i]);
  }
  auto nan = convert(*device, "  %e = call float @tegula.hw.ex2_approx_f32(float %f)\n  %y = bitcast float %e to i32",
                     {0x7FC00000, 0xFFC12345});
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(nan[0])));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(nan[1])));
  auto other = convert(*device, R"(
  %a = call float @tegula.hw.sqrt_approx_f32(float %f)
  %b = call float @tegula.hw.rsqrt_approx_f32(float %f)
  %c = call float @tegula.hw.div_full_f32(float %a, float %b)
  %r = frem float %c, 0x4008000000000000
  %m = call float @llvm.fma.f32(float %r, float %r, float 1.0)
  %y = bitcast float %m to i32)",
                       {std::bit_cast<uint32_t>(16.0f)});
  EXPECT_EQ(std::bit_cast<float>(other[0]), 2.0f);  // sqrt / rsqrt = x; 16 mod 3 = 1
}

// ---- Streams, events, graphs

TEST(Emulator, CapturesAndReplays) {
  auto device = make_emulator();
  auto kernel = device->load(make_image(kAddParams, kAdd, 4));
  Array<float> x(*device, iota(100)), z(*device, 100);
  StreamHandle stream = device->create_stream();
  EXPECT_CONTAINS(error_of([&] { device->begin_capture(nullptr); }), "the default stream cannot capture");
  EXPECT_CONTAINS(error_of([&] { device->end_capture(stream); }), "did not begin");
  device->begin_capture(stream);
  launch_on(*kernel, stream, {1}, x.address(), z.address(), z.address(), 100);
  launch_on(*kernel, stream, {1}, x.address(), z.address(), z.address(), 50);
  EXPECT_CONTAINS(error_of([&] { device->synchronize(stream); }), "on a stream that captures a graph");
  GraphHandle graph = device->end_capture(stream);
  kernel.reset();  // the graph keeps the code
  EXPECT_EQ(z.values()[10], 0);
  device->launch_graph(graph, stream);
  device->launch_graph(graph, stream);
  device->synchronize(stream);
  EXPECT_EQ(z.values()[10], 40);
  EXPECT_EQ(z.values()[90], 180);
  device->destroy_graph(graph);
  device->destroy_stream(stream);
}

TEST(Emulator, EventsTellTheTime) {
  auto device = make_emulator();
  EventHandle start = device->create_event(), stop = device->create_event();
  EXPECT_CONTAINS(error_of([&] { device->elapsed_ms(start, stop); }), "not recorded");
  device->record(start);
  uint64_t memory = device->allocate(0);
  EXPECT_EQ(memory % 256, 0u);
  EXPECT_NE(memory, 0u);
  device->free(memory);
  device->record(stop);
  EXPECT_GE(device->elapsed_ms(start, stop), 0);
  device->destroy_event(start);
  device->destroy_event(stop);
  EXPECT_EQ(device->info().name, "emulator (sm_90a)");
  EXPECT_EQ(device->info().sm, 90);
  EXPECT_EQ(device->info().shared_per_program, 232448);
  EXPECT_TRUE(device->info().emulator);
}

// ---- Speed

/// Softmax of rows of 4096, one a program of 128 threads with 8 accesses of 16 bytes each.
std::string softmax_row() {
  std::string b = R"(
  %t = call i32 @tegula.hw.thread_id()
  %pid = call i32 @tegula.hw.program_id_x()
  %first = mul i32 %pid, 4096
  %t4 = mul i32 %t, 4
  %start = add i32 %first, %t4
  %base = call i32 @tegula.hw.shared_base()
  %warp = lshr i32 %t, 5
  %lane = and i32 %t, 31
  %writes = icmp eq i32 %lane, 0
  %w4 = mul i32 %warp, 4
  %sw = add i32 %base, %w4
)";
  for (int v = 0; v < 8; ++v) {
    b += fmt::format(
        "  %i{0} = add i32 %start, {1}\n  %ip{0} = getelementptr float, ptr addrspace(1) %in, i32 %i{0}\n"
        "  %op{0} = getelementptr float, ptr addrspace(1) %out, i32 %i{0}\n"
        "  %l{0} = call {{i32, i32, i32, i32}} @\"tegula.hw.ld_global_v4b32.ca.L1::evict_last\"(ptr addrspace(1) "
        "%ip{0}, "
        "i32 0, "
        "i32 0, i32 0, i32 0, i1 true, i32 1)\n",
        v, v * 512);
    for (int e = 0; e < 4; ++e)
      b += fmt::format(
          "  %b{0} = extractvalue {{i32, i32, i32, i32}} %l{1}, {2}\n  %x{0} = bitcast i32 %b{0} to float\n", 4 * v + e,
          v, e);
  }
  // Reduces %<name>0 .. %<name>31 over the program with an operation on two floats.
  auto reduce = [&](const std::string& name, const std::string& values, const std::string& call, int shared) {
    std::string last = "%" + values + "0";
    int n = 0;
    auto combine = [&](const std::string& x) {
      std::string next = fmt::format("%{}r{}", name, n++);
      b += fmt::format("  {} = {}\n", next, fmt::format(fmt::runtime(call), last, x));
      last = next;
    };
    auto butterfly = [&](int mask) {
      std::string id = fmt::format("{}{}", name, n);
      b += fmt::format(
          "  %{0}i = bitcast float {1} to i32\n  %{0}s = call i32 @tegula.hw.shfl_bfly_b32(i32 %{0}i, i32 {2})\n"
          "  %{0}f = bitcast i32 %{0}s to float\n",
          id, last, mask);
      combine("%" + id + "f");
    };
    for (int i = 1; i < 32; ++i) combine(fmt::format("%{}{}", values, i));
    for (int mask = 16; mask; mask /= 2) butterfly(mask);
    b += fmt::format("  %{0}b = bitcast float {1} to i32\n  %{0}a = add i32 %sw, {2}\n", name, last, shared);
    b += fmt::format(
        "  call void @tegula.hw.st_shared_b32(i32 %{0}a, i32 %{0}b, i1 %writes, i32 2)\n"
        "  call void @tegula.hw.barrier(i32 3)\n  %{0}ra = add i32 %base, {1}\n"
        "  %{0}v = call {{i32, i32, i32, i32}} @tegula.hw.ld_shared_v4b32(i32 %{0}ra, i32 4)\n"
        "  call void @tegula.hw.barrier(i32 4)\n",
        name, shared);
    for (int e = 0; e < 4; ++e) {
      b += fmt::format(
          "  %{0}e{1} = extractvalue {{i32, i32, i32, i32}} %{0}v, {1}\n  %{0}g{1} = bitcast i32 %{0}e{1} to float\n",
          name, e);
      if (e == 0)
        last = "%" + name + "g0";
      else
        combine(fmt::format("%{}g{}", name, e));
    }
    return last;
  };
  std::string max = reduce("m", "x", "call float @llvm.maxnum.f32(float {}, float {})", 0);
  for (int i = 0; i < 32; ++i)
    b += fmt::format(
        "  %d{0} = fsub float %x{0}, {1}\n  %k{0} = fmul float %d{0}, 0x3FF7154760000000\n"
        "  %ex{0} = call float @tegula.hw.ex2_approx_f32(float %k{0})\n",
        i, max);
  std::string sum = reduce("q", "ex", "fadd float {}, {}", 16);
  for (int v = 0; v < 8; ++v) {
    std::string values;
    for (int e = 0; e < 4; ++e) {
      b += fmt::format(
          "  %y{0} = call float @tegula.hw.div_full_f32(float %ex{0}, float {1})\n  %z{0} = bitcast float %y{0} to "
          "i32\n",
          4 * v + e, sum);
      values += fmt::format("i32 %z{}, ", 4 * v + e);
    }
    b += fmt::format("  call void @tegula.hw.st_global_v4b32(ptr addrspace(1) %op{}, {}i1 true, i32 5)\n", v, values);
  }
  return b + "  ret void";
}

TEST(Emulator, SoftmaxOf4096By4096) {
  auto device = make_emulator();
  KernelImage image = make_image({pointer("in"), pointer("out")}, softmax_row(), 4, 32);
  using Clock = std::chrono::steady_clock;
  auto seconds = [](auto from) { return std::chrono::duration<double>(Clock::now() - from).count(); };
  auto compile_start = Clock::now();
  auto kernel = device->load(image);
  double compile_time = seconds(compile_start);
  constexpr int kRows = 4096, kColumns = 4096;
  std::vector<float> values(kRows * kColumns);
  std::mt19937 random(2);
  for (float& v : values) v = float(random() % 20000) / 1000 - 10;
  Array<float> in(*device, values), out(*device, values.size());
  launch(*kernel, {16}, in.address(), out.address());
  auto start = Clock::now();
  launch(*kernel, {kRows}, in.address(), out.address());
  double time = seconds(start);
  fmt::print("softmax 4096 x 4096: {:.3f} s on {} workers, compiled in {:.3f} s\n", time, device->info().num_sms,
             compile_time);
  RecordProperty("seconds", fmt::format("{:.3f}", time));
  std::vector<float> result = out.values();
  for (int row : {0, 1, 2047, 4095}) {
    const float* x = &values[size_t(row) * kColumns];
    double max = *std::max_element(x, x + kColumns), sum = 0;
    for (int i = 0; i < kColumns; ++i) sum += std::exp(x[i] - max);
    for (int i = 0; i < kColumns; ++i) {
      double expected = std::exp(x[i] - max) / sum;
      ASSERT_NEAR(result[size_t(row) * kColumns + i], expected, 2e-6 * expected) << row << " " << i;
    }
  }
}

}  // namespace
}  // namespace tegula
