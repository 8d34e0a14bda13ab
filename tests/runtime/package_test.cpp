// Packages: as bytes, on disk, and which code and which specialisation a launch takes.
#include "runtime/package/package.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/files.h"
#include "runtime/base/float16.h"
#include "tests/message_of.h"
#include "tests/runtime/fake_gpu.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;

KernelImage image_for(std::string target,
                      std::vector<ImageParam> params = {{"x", Elem::F32, true, 16}, {"n", Elem::I32, false, 1}}) {
  KernelImage image;
  image.kernel = "k";
  image.target = std::move(target);
  image.params = std::move(params);
  image.ptx = "ptx";
  return image;
}

PackagedKernel kernel_of(KernelImage image, std::string config = "BLOCK=64") {
  return {image.kernel, std::move(config), {{std::move(image), {}}}};
}

class Packages : public testing::Test {
 protected:
  Packages() {
    folder_ = fs::temp_directory_path() / ("tegula-packages-" + std::to_string(getpid())),
    fs::create_directories(folder_);
  }
  ~Packages() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(Packages, ComeBackAsTheyWere) {
  Package package;
  KernelImage with_maps = image_for("sm_90a");
  with_maps.cubin = {1, 2, 3};
  package.add({"k", "BLOCK=64", {{with_maps, image_for("sm_90a")}}});
  package.add(kernel_of(image_for("sm_80"), "BLOCK=128"));
  package.write(folder_ / "p.tgp");
  const Package again = Package::read(folder_ / "p.tgp");
  ASSERT_EQ(again.kernels().size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(again.kernels()[i], package.kernels()[i]);
  EXPECT_EQ(again.to_bytes(), package.to_bytes());
}

TEST_F(Packages, OfOneSpecialisationKeepTheCodesOfAllTargets) {
  Package package;
  package.add(kernel_of(image_for("sm_80")));
  package.add(kernel_of(image_for("sm_90a")));
  KernelImage newer = image_for("sm_80");
  newer.ptx = "newer";
  package.add(kernel_of(newer));
  ASSERT_EQ(package.kernels().size(), 1u);
  ASSERT_EQ(package.kernels()[0].codes.size(), 2u);
  EXPECT_EQ(package.kernels()[0].codes[0].image.ptx, "newer");
  package.add(kernel_of(image_for("sm_80", {{"x", Elem::F16, true, 16}, {"n", Elem::I32, false, 1}})));
  EXPECT_EQ(package.kernels().size(), 2u);
}

TEST_F(Packages, ThatAreNoneOrDamagedAreRefused) {
  Package package;
  package.add(kernel_of(image_for("sm_80")));
  const std::string good = package.to_bytes();
  auto why = [](const std::string& bytes) { return message_of([&] { Package::from_bytes(bytes, "p.tgp"); }); };
  EXPECT_EQ(why("text"), "'p.tgp' is no package of kernels\n  hint: `tegula build` makes one");
  EXPECT_EQ(why(good.substr(0, 18)), "'p.tgp' is cut short");
  for (size_t at = 36; at < good.size(); at += 7) {  // behind the digest
    std::string bad = good;
    bad[at] ^= 1;
    EXPECT_EQ(why(bad), "'p.tgp' is damaged: its digest does not match\n  hint: copy or build it again");
    EXPECT_EQ(why(good.substr(0, at)), why(bad));
  }
  std::string other = good;
  other[15] = 99;
  EXPECT_EQ(why(other),
            "'p.tgp' is a package of format 99, this library reads format 5\n  hint: build it again with the `tegula` "
            "command of this version");
  EXPECT_EQ(message_of([&] { Package::read(folder_ / "none.tgp"); }),
            "cannot read '" + (folder_ / "none.tgp").string() + "': No such file or directory");
  EXPECT_EQ(message_of([&] { Package::read(folder_); }), "cannot read '" + folder_.string() + "': it is a folder");
}

TEST_F(Packages, AreReplacedAsAWhole) {
  Package package;
  package.add(kernel_of(image_for("sm_80")));
  package.write(folder_ / "p.tgp");
  EXPECT_EQ(message_of([&] { package.write(folder_ / "none" / "p.tgp"); }),
            "cannot write '" + (folder_ / "none" / "p.tgp").string() + "': No such file or directory");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);  // nothing else is left
}

// Keys of these tests alone, made by `openssl genpkey -algorithm ed25519`.
constexpr const char* kPrivate =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ5MfYt0ZsJ6BbGTazBNqBNeB6dRc+uQe5OsXcbPOeHY\n"
    "-----END PRIVATE KEY-----\n";
constexpr const char* kPublic =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAh3Af0lDJTT4yE0Orm7GePah58yd7A2myx2XqRakn5Fo=\n"
    "-----END PUBLIC KEY-----\n";
constexpr const char* kOtherPublic =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAHbQNHmyeKcaHkX1cWnnG3LfofKduzgl5t6AYFwBKLgw=\n"
    "-----END PUBLIC KEY-----\n";

bool has_crypto() {
  try {
    PublicKey::from_text(kPublic, "app.pub");
    return true;
  } catch (const FileError&) {
    return false;
  }
}

TEST_F(Packages, AreReadByTheKeyThatSignedThem) {
  if (!has_crypto()) GTEST_SKIP() << "OpenSSL's libcrypto.so.3 is not there";
  Package package;
  package.add(kernel_of(image_for("sm_80")));
  const PrivateKey key = PrivateKey::from_text(kPrivate, "app.key");
  const PublicKey its = PublicKey::from_text(kPublic, "app.pub"),
                  other = PublicKey::from_text(kOtherPublic, "other.pub");
  const std::string its_text = key_text(its.bytes()), other_text = key_text(other.bytes());
  const fs::path file = folder_ / "p.tgp";
  package.write(file, &key);
  EXPECT_EQ(Package::read(file, its).kernels()[0], package.kernels()[0]);
  EXPECT_EQ(Package::read(file).kernels()[0], package.kernels()[0]);  // who asks for no key takes any package
  EXPECT_EQ(message_of([&] { Package::read(file, other); }),
            fmt::format("'{}' is signed by the key {}, expected the key 'other.pub' ({})", file.string(), its_text,
                        other_text));
  // A signature of other contents, with a digest that is right.
  const std::string bytes = package.to_bytes(&key);
  Package changed;
  changed.add(kernel_of(image_for("sm_80"), "BLOCK=32"));
  std::string forged = changed.to_bytes(&key);
  constexpr size_t kSignatureAt = 15 + 4 + 8, kSignatureBytes = 96;
  forged.replace(kSignatureAt, kSignatureBytes, bytes, kSignatureAt, kSignatureBytes);
  EXPECT_EQ(message_of([&] { Package::from_bytes(forged, "forged", its); }),
            fmt::format("'forged' is not what the key 'app.pub' ({}) has signed: it was changed, or the signature is "
                        "another file's",
                        its_text));
  EXPECT_EQ(message_of([&] { Package::from_bytes(package.to_bytes(), "plain", its); }),
            fmt::format("'plain' is not signed; expected a signature by the key 'app.pub' ({})\n  hint: `tegula build "
                        "--sign KEY` signs it",
                        its_text));
  EXPECT_EQ(message_of([&] { PublicKey::from_text(kPrivate, "app.key"); }),
            "'app.key' holds no public Ed25519 key in PEM form\n  hint: openssl pkey -in app.key -pubout -out app.pub");
  EXPECT_EQ(message_of([&] { PrivateKey::from_text("nothing", "none"); }),
            "'none' holds no private Ed25519 key in PEM form\n  hint: openssl genpkey -algorithm ed25519 -out app.key");
}

TEST(PackagedCode, IsChosenByTheDevice) {
  auto code = [](std::string target, bool cubin, bool ptx, bool emulator = false) {
    KernelImage image = image_for(std::move(target));
    if (!ptx) image.ptx.clear();
    if (cubin) image.cubin = {1};
    if (emulator) image.bitcode = {1};
    return PackagedCode{image, {}};
  };
  const PackagedKernel kernel{"k",
                              "",
                              {code("sm_80", true, true), code("sm_86", true, true), code("sm_90a", true, false),
                               code("sm_100a", false, true), code("sm_90a", false, false, true)}};
  auto chosen = [&](int sm, bool emulator = false) {
    DeviceInfo info;
    info.sm = sm;
    info.emulator = emulator;
    const PackagedCode* best = code_for(kernel, info);
    return best ? best->image.target + (best->image.bitcode.empty() ? "" : " emulator") : "none";
  };
  EXPECT_EQ(chosen(80), "sm_80");
  EXPECT_EQ(chosen(86), "sm_86");
  EXPECT_EQ(chosen(89), "sm_86");
  EXPECT_EQ(chosen(90), "sm_90a");
  EXPECT_EQ(chosen(100), "sm_100a");
  EXPECT_EQ(chosen(103), "sm_86");  // PTX of sm_86; that of sm_100a runs there alone
  EXPECT_EQ(chosen(120), "sm_86");
  EXPECT_EQ(chosen(75), "none");
  EXPECT_EQ(chosen(90, true), "sm_90a emulator");
  EXPECT_EQ(chosen(80, true), "none");
}

TEST(PackagedLaunch, TakesTheSpecialisationThatAssumesMost) {
  Package package;
  KernelImage any = image_for("sm_90a"), even = image_for("sm_90a"), one = image_for("sm_90a");
  any.num_warps = 1;
  even.num_warps = 2, even.params[1].divisible_by = 16;
  one.num_warps = 4, one.params.pop_back(), one.constants = {{1, "n", false, 1}};
  KernelImage half = image_for("sm_90a", {{"x", Elem::F16, true, 16}, {"n", Elem::I32, false, 1}});
  half.num_warps = 8;
  for (const KernelImage& image : {any, half, one, even}) package.add(kernel_of(image));
  FakeGpu gpu;
  PackagedLaunch k(package, "k", gpu);
  auto* x = reinterpret_cast<float*>(gpu.allocate(64));
  auto* y = reinterpret_cast<float16*>(x);
  k(nullptr, {1}, x, 7);
  k(nullptr, {1}, x, 32);
  k(nullptr, {1}, x, 1);
  k(nullptr, {1}, y, 32);
  std::vector<int> warps;
  for (const FakeGpu::Launch& launch : gpu.launches()) warps.push_back(launch.num_warps);
  EXPECT_EQ(warps, (std::vector{1, 2, 4, 8}));
  EXPECT_EQ(message_of([&] { k(nullptr, {1}, reinterpret_cast<double*>(x), 7); }),
            "kernel 'k': none of its 4 specialisations takes these arguments\n"
            "  (x: *f32 a multiple of 16, n = 1)\n"
            "    kernel 'k', argument 'x': expected *f32, found a pointer to f64\n"
            "  (x: *f32 a multiple of 16, n: i32 a multiple of 16)\n"
            "    kernel 'k', argument 'x': expected *f32, found a pointer to f64\n"
            "  (x: *f32 a multiple of 16, n: i32)\n"
            "    kernel 'k', argument 'x': expected *f32, found a pointer to f64\n"
            "  (x: *f16 a multiple of 16, n: i32)\n"
            "    kernel 'k', argument 'x': expected *f16, found a pointer to f64");
}

TEST(PackagedLaunch, SaysWhatThePackageLacks) {
  Package package;
  package.add(kernel_of(image_for("sm_100a")));
  FakeGpu gpu;
  EXPECT_EQ(message_of([&] { PackagedLaunch(package, "soft", gpu); }), "the package has no kernel 'soft'; it has k");
  EXPECT_EQ(message_of([&] { PackagedLaunch(package, "k", gpu, "BLOCK=7"); }),
            "the package has no kernel 'k' with 'BLOCK=7'; it has k");
  EXPECT_EQ(message_of([&] { PackagedLaunch(package, "k", gpu); }),
            "kernel 'k' of the package does not run on Fake GPU (compute capability 9.0); it is built for sm_100a\n"
            "  hint: `tegula build --target sm_90` adds it");
  EXPECT_EQ(message_of([&] { PackagedLaunch(Package(), "k", gpu); }),
            "the package has no kernel 'k'; it has no kernels");
}

// n / 64, rounded up, of the argument n; and 3.
PackagedGrid blocks_of_64() {
  using S = LaunchStep;
  return {"cdiv(n, 64), 3",
          {{S::Argument, Elem::I32, {}, 1},
           {S::Constant, Elem::I64, {}, 63},
           {S::Add, Elem::I64, {0, 1}, 0},
           {S::Constant, Elem::I64, {}, 64},
           {S::Div, Elem::I64, {2, 3}, 0},
           {S::Constant, Elem::I64, {}, 3}},
          {4, 5}};
}

TEST(PackagedGrid, FollowsFromTheArguments) {
  Package package;
  PackagedKernel kernel = kernel_of(image_for("sm_80"));
  kernel.grid = blocks_of_64();
  package.add(kernel);
  package.add(kernel_of([] {
    KernelImage image = image_for("sm_80");
    image.kernel = "other";
    return image;
  }()));
  package = Package::from_bytes(package.to_bytes(), "p");
  EXPECT_EQ(package.kernels()[0].grid, blocks_of_64());
  const std::array<Arg, 2> args{Arg::pointer(256), Arg(130)};
  EXPECT_EQ(kernel.grid(kernel.codes[0].image, args), (Grid{3, 3, 1}));
  const std::array<Arg, 2> negative{Arg::pointer(256), Arg(-1000)};
  EXPECT_EQ(message_of([&] { kernel.grid(kernel.codes[0].image, negative); }),
            "kernel 'k': extent 0 of the grid 'cdiv(n, 64), 3' is -14, expected 0 to 2^31 - 1");

  FakeGpu gpu;
  const Buffer x(gpu, 256);
  PackagedLaunch(package, "k", gpu)(nullptr, own_grid, x.as<float>(), 130);
  EXPECT_EQ(gpu.launches().back().grid, (Grid{3, 3, 1}));
  EXPECT_EQ(message_of([&] { PackagedLaunch(package, "other", gpu)(nullptr, own_grid, x.as<float>(), 130); }),
            "kernel 'other' of the package has no grid of its own\n  hint: pass one, or build it with --grid 'cdiv(n, "
            "BLOCK)'");

  PackagedGrid wrong = blocks_of_64();
  wrong.steps[2].operands[1] = 2;  // itself
  EXPECT_FALSE(wrong.is_valid(2));
  EXPECT_FALSE(blocks_of_64().is_valid(1));
}

}  // namespace
}  // namespace tegula
