// A program without a compiler: it reads a package, and launches on a GPU if there is one.
#include <runtime/cuda_device.h>
#include <runtime/package/package.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const tegula::Package package = tegula::Package::read(argv[1]);
  for (const tegula::PackagedKernel& kernel : package.kernels())
    std::printf("%s %s\n", kernel.name.c_str(), signature_text(kernel.codes.front().image).c_str());
  try {
    auto gpu = tegula::open_cuda_device();
    tegula::PackagedLaunch twice(package, "double", *gpu);
    tegula::Buffer x(*gpu, std::vector<float>{1, 2, 3});
    twice(nullptr, {1}, x, 3);
    std::printf("on the GPU: %g %g %g\n", x.download<float>()[0], x.download<float>()[1], x.download<float>()[2]);
  } catch (const tegula::DeviceError& error) {
    std::printf("no GPU: %s\n", error.what());
  }
}
