// Kernels written by hand in LLVM IR, as lowering emits them, for the tests of the emulator.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "tests/expect_contains.h"
#include "tests/message_of.h"

namespace tegula {

inline constexpr const char* kDeclarations = R"(
declare i32 @tegula.hw.thread_id()
declare i32 @tegula.hw.program_id_x()
declare i32 @tegula.hw.program_id_y()
declare i32 @tegula.hw.program_id_z()
declare i32 @tegula.hw.num_programs_x()
declare i32 @tegula.hw.num_programs_y()
declare i32 @tegula.hw.num_programs_z()
declare i32 @tegula.hw.shared_base()
declare void @tegula.hw.fence.acq_rel.gpu()
declare void @tegula.hw.barrier(i32) convergent
declare i32 @tegula.hw.shfl_bfly_b32(i32, i32) convergent
declare i32 @tegula.hw.shfl_idx_b32(i32, i32) convergent
declare i64 @tegula.hw.shfl_bfly_b64(i64, i32) convergent
declare i64 @tegula.hw.shfl_idx_b64(i64, i32) convergent
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
declare i32 @tegula.hw.atom_add_bf16x2(ptr addrspace(1), i32, i1, i32)
declare float @tegula.hw.atom_add_f32(ptr addrspace(1), float, i1, i32)
declare double @tegula.hw.atom_add_f64(ptr addrspace(1), double, i1, i32)
declare i32 @tegula.hw.ld_shared_b32(i32, i32)
declare {i32, i32, i32, i32} @tegula.hw.ld_shared_v4b32(i32, i32)
declare void @tegula.hw.st_shared_b16(i32, i16, i1, i32)
declare void @tegula.hw.st_shared_b32(i32, i32, i1, i32)
declare void @tegula.hw.st_shared_v4b32(i32, i32, i32, i32, i32, i1, i32)
declare void @tegula.hw.cp_async_4(i32, ptr addrspace(1), i1, i32)
declare void @tegula.hw.cp_async_8(i32, ptr addrspace(1), i1, i32)
declare void @tegula.hw.cp_async_16(i32, ptr addrspace(1), i1, i32)
declare void @tegula.hw.cp_async_by_some_4(i32, ptr addrspace(1), i1, i1, i32)
declare void @tegula.hw.cp_async_commit()
declare void @tegula.hw.cp_async_wait.0()
declare void @tegula.hw.cp_async_wait.1()
declare void @tegula.hw.cp_async_wait.2()
declare void @tegula.hw.stmatrix_x1(i32, i32, i32) convergent
declare void @tegula.hw.stmatrix_x4(i32, i32, i32, i32, i32, i32) convergent
declare void @tegula.hw.stmatrix_x2_trans(i32, i32, i32, i32) convergent
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

inline ImageParam pointer(const char* name, Elem elem = Elem::F32) { return {name, elem, true, 16}; }
inline ImageParam scalar(const char* name, Elem elem = Elem::I32) { return {name, elem, false, 1}; }

/// An image of kernel `k`, whose body is the text; sites 1 to 9 are lines 1 to 9 of k.py. `declarations` are those of
/// hardware functions that kDeclarations lacks; tensor maps are the parameters %map0, %map1 ..
inline KernelImage make_image(std::vector<ImageParam> params, const std::string& body, int num_warps = 1,
                              int64_t shared_bytes = 0, const std::string& declarations = "", TensorMaps maps = {}) {
  KernelImage image;
  image.tensor_maps = std::move(maps);
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
  for (size_t i = 0; i < image.tensor_maps.maps.size(); ++i)
    signature +=
        fmt::format("{}ptr byval([128 x i8]) align 64 \"nvvm.grid_constant\" %map{}", signature.empty() ? "" : ", ", i);
  std::string text = fmt::format(
      "target triple = \"nvptx64-nvidia-cuda\"\n"
      "target datalayout = \"e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64\"\n{}{}\n"
      "define ptx_kernel void @k({}) #0 {{\n{}\n}}\n"
      "attributes #0 = {{ noinline \"target-cpu\"=\"sm_90a\" \"target-features\"=\"+ptx80\" }}\n",
      kDeclarations, declarations, signature, body);
  image.bitcode.assign(text.begin(), text.end());
  return image;
}

/// The image of make_image() with debug information: its instructions name such places, !9 and those that follow, as
/// lines and columns of the file.
inline KernelImage with_places(KernelImage image, const std::string& file,
                               const std::vector<std::pair<int, int>>& places) {
  std::string text(image.bitcode.begin(), image.bitcode.end());
  text.replace(text.find(") #0 {"), 6, ") #0 !dbg !4 {");
  text += fmt::format(R"(
!llvm.module.flags = !{{!0}}
!llvm.dbg.cu = !{{!1}}
!0 = !{{i32 2, !"Debug Info Version", i32 3}}
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, emissionKind: LineTablesOnly)
!2 = !DIFile(filename: "{}", directory: "")
!4 = distinct !DISubprogram(name: "k", scope: !2, file: !2, line: 1, type: !5, unit: !1, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{{}}
)",
                      file);
  for (size_t i = 0; i < places.size(); ++i)
    text +=
        fmt::format("!{} = !DILocation(line: {}, column: {}, scope: !4)\n", 9 + i, places[i].first, places[i].second);
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
inline std::string error_of_launch(LoadedKernel& kernel, Grid grid, A... args) {
  return message_of<DeviceError>([&] { launch(kernel, grid, args...); });
}
template <class F>
std::string error_of(F f) {
  return message_of<DeviceError>(f);
}

/// Prints how many of the faults that the test at hand has planted were found.
inline void tell_planted(size_t found, size_t planted) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  fmt::print("planted faults: {:>3} of {:>3} found, {}.{}\n", found, planted, test.test_suite_name(), test.name());
}

/// A fault planted in code by hand.
struct PlantedFault {
  std::string what;
  std::string error;                ///< that the emulator told
  std::vector<std::string> wanted;  ///< what it must say, the places among it
};
/// `of(seed)`: the faults, when threads run in the order of the seed. Each must be found in all orders.
template <class Of>
void expect_planted(const std::vector<uint64_t>& seeds, const Of& of) {
  std::vector<bool> found;
  for (uint64_t seed : seeds) {
    const std::vector<PlantedFault> faults = of(seed);
    found.resize(faults.size(), true);
    for (size_t i = 0; i < faults.size(); ++i) {
      SCOPED_TRACE(fmt::format("{}, seed {}", faults[i].what, seed));
      for (const std::string& part : faults[i].wanted) {
        if (faults[i].error.find(part) == faults[i].error.npos) found[i] = false;
        EXPECT_CONTAINS(faults[i].error, part);
      }
    }
  }
  tell_planted(size_t(std::count(found.begin(), found.end(), true)), found.size());
}

inline std::vector<float> iota(size_t n, float first = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

// z[i] = x[i] + y[i], i = 128 * program + thread < n
inline constexpr const char* kAdd = R"(
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
inline const std::vector<ImageParam> kAddParams = {pointer("x"), pointer("y"), pointer("z"), scalar("n")};

// Each thread leaves its number in shared memory and reads the one that stands opposite.
inline constexpr const char* kReverse = R"(
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

}  // namespace tegula
