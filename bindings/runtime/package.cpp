// Packages of compiled kernels.
#include "runtime/package/package.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/runtime/arguments.h"

using namespace tegula;
using namespace tegula::bindings;

struct tegula_package {
  /// What describes a specialisation, as text.
  struct Texts {
    std::string signature, targets;
  };
  explicit tegula_package(Package read) : package(std::move(read)) {
    for (const PackagedKernel& k : package.kernels())
      texts.push_back({k.codes.empty() ? "()" : signature_text(k.codes.front().image), targets_text(k)});
  }
  Package package;
  std::vector<Texts> texts;
};

struct tegula_packaged_config {
  const PackagedConfig& config;
};

struct tegula_packaged {
  std::shared_ptr<Device> device;  ///< goes after the kernel
  PackagedLaunch kernel;
};

extern "C" {

tegula_status tegula_package_read(const char* path, tegula_package** package) {
  return guarded([&] {
    given(package, "package");
    *package = new tegula_package(Package::read(&given(path, "path")));
  });
}

tegula_status tegula_package_from_bytes(const void* bytes, size_t size, const char* name, tegula_package** package) {
  return guarded([&] {
    given(package, "package");
    const char* begin = static_cast<const char*>(bytes);
    if (size) given(begin, "bytes");
    *package = new tegula_package(Package::from_bytes({begin, size}, name ? name : "<bytes>"));
  });
}

tegula_status tegula_package_read_signed(const char* path, const char* public_key, tegula_package** package) {
  return guarded([&] {
    given(package, "package");
    const PublicKey key = PublicKey::from_text(&given(public_key, "public_key"), "public_key");
    *package = new tegula_package(Package::read(&given(path, "path"), key));
  });
}

void tegula_package_release(tegula_package* package) { delete package; }

size_t tegula_package_num_kernels(const tegula_package* package) {
  return package ? package->package.kernels().size() : 0;
}

tegula_status tegula_package_kernel(const tegula_package* package, size_t index, tegula_packaged_facts* facts) {
  return guarded([&] {
    const auto kernels = given(package, "package").package.kernels();
    if (index >= kernels.size()) throw UsageError(fmt::format("kernel {} of a package with {}", index, kernels.size()));
    const auto& texts = package->texts[index];
    fill(facts, {0, kernels[index].name.c_str(), kernels[index].config.c_str(), texts.signature.c_str(),
                 texts.targets.c_str()});
  });
}

tegula_status tegula_package_load(const tegula_package* package, tegula_device* device, const char* name,
                                  const char* config, tegula_packaged** kernel) {
  return guarded([&] {
    given(kernel, "kernel");
    const Package& from = given(package, "package").package;
    auto& to = given(device, "device").device;
    PackagedLaunch ready(from, &given(name, "name"), *to, config ? config : "");
    ready.prewarm();
    *kernel = new tegula_packaged{to, std::move(ready)};
  });
}

void tegula_packaged_release(tegula_packaged* kernel) { delete kernel; }

tegula_status tegula_packaged_launch(const tegula_packaged* kernel, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
                                     tegula_stream stream, const tegula_value* args, size_t num_args) {
  return guarded([&] {
    given(kernel, "kernel").kernel.launch(stream, Grid{grid_x, grid_y, grid_z}, Args(args, num_args).span());
  });
}

tegula_status tegula_packaged_launch_own_grid(const tegula_packaged* kernel, tegula_stream stream,
                                              const tegula_value* args, size_t num_args) {
  return guarded([&] { given(kernel, "kernel").kernel.launch(stream, own_grid, Args(args, num_args).span()); });
}

const char* tegula_packaged_config_text(const tegula_packaged_config* config) {
  return config ? config->config.text.c_str() : "";
}

tegula_status tegula_packaged_config_int(const tegula_packaged_config* config, const char* name, int64_t* value) {
  return guarded([&] {
    given(value, "value");
    *value = given(config, "config").config[&given(name, "name")];
  });
}

tegula_status tegula_packaged_launch_with(const tegula_packaged* kernel, tegula_packaged_grid grid, void* user,
                                          tegula_stream stream, const tegula_value* args, size_t num_args) {
  return guarded([&] {
    if (!grid) throw UsageError("'grid' is NULL");
    auto extents = [&](const PackagedConfig& config) {
      const tegula_packaged_config handle{config};
      uint32_t extent[3] = {1, 1, 1};
      if (tegula_status status = grid(user, &handle, extent)) throw CallbackFailed{status};
      return Grid{extent[0], extent[1], extent[2]};
    };
    given(kernel, "kernel").kernel.launch(stream, extents, Args(args, num_args).span());
  });
}

}  // extern "C"
