// Doubles some numbers with a kernel from text, calls the kernel library, and catches the library's exception across
// its boundary.

#include <dsl/tegula.h>
#include <kernels/kernels.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

int main() {
  try {
    auto device = tegula::default_device();
    std::vector<float> host(1000);
    for (size_t i = 0; i < host.size(); ++i) host[i] = float(i);
    tegula::Buffer x(*device, host);
    tegula::Kernel twice = tegula::Program::load(KERNELS).kernel("double");
    twice.launch(*device, {4}, {.constexprs = {{"BLOCK", 256}}}, x.as<float>(), int(host.size()));
    const std::vector<float> result = x.download<float>();

    using namespace tegula;
    auto half = kernel("half", [](Ptr<"x", float> x, Int<"n"> n, Const<"BLOCK"> BLOCK) {
      Tile i = program_id(0) * BLOCK + arange(0, BLOCK);
      store(x + i, load(x + i, i < n) * 0.5f, i < n);
    });
    half.launch(*device, {4}, {.constexprs = {{"BLOCK", 256}}}, x.as<float>(), int(host.size()));
    if (x.download<float>() != host) {
      std::printf("the halves of the doubled numbers are others\n");
      return 1;
    }

    for (size_t i = 0; i < host.size(); ++i) {
      if (result[i] != 2 * host[i]) {
        std::printf("element %zu is %g, expected %g\n", i, result[i], 2 * host[i]);
        return 1;
      }
    }
    tegula::kernels::softmax(*device, tegula::kernels::Matrix<float>(x, 10, 100),
                             tegula::kernels::Matrix<float>(x, 10, 100));
    double sum = 0;
    for (float value : x.download<float>()) sum += value;
    if (!(std::abs(sum - 10) < 1e-4)) {
      std::printf("10 rows of a softmax have the sum %g\n", sum);
      return 1;
    }
    std::printf("%zu numbers doubled on %s\n", host.size(), device->info().name.c_str());
  } catch (const tegula::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }

  try {
    tegula::Program::parse("import triton\n@triton.jit\ndef broken(x:\n    pass\n", "broken.py");
  } catch (const tegula::CompileError& error) {
    if (error.diags().empty() || std::string(error.what()).find("broken.py:3") == std::string::npos) return 1;
    return 0;
  }
  std::printf("a syntax error was not thrown\n");
  return 1;
}
