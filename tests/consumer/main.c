/* The C interface from C99, against an installed library: doubles some numbers on the emulator, and reads an error. */
#include <stdio.h>
#include <string.h>
#include <tegula/tegula.h>

enum { kCount = 1000 };

static int fail(const char* what) {
  printf("%s: %s\n", what, tegula_last_error());
  return 1;
}

static tegula_status grid_of(void* user, const tegula_config* config, uint32_t grid[3]) {
  int64_t block;
  tegula_status status = tegula_config_int(config, "BLOCK", &block);
  if (status) return status;
  grid[0] = (uint32_t)((*(const int*)user + block - 1) / block);
  return TEGULA_OK;
}

int main(void) {
  float x[kCount];
  int count = kCount, i;
  tegula_device* device;
  tegula_program* program;
  tegula_kernel* kernel;
  tegula_buffer* buffer;
  tegula_constexpr block = {"BLOCK", {TEGULA_INT, 0, {256}, 0}};
  tegula_options options = {.struct_size = sizeof(tegula_options), .constexprs = &block, .num_constexprs = 1};
  tegula_value args[2];

  if (tegula_abi() != TEGULA_ABI) return fail("another ABI");
  if (tegula_device_emulator(NULL, &device)) return fail("device");
  if (tegula_program_load(KERNELS, &program)) return fail("program");
  if (tegula_program_kernel(program, "double", &kernel)) return fail("kernel");
  for (i = 0; i < kCount; ++i) x[i] = (float)i;
  if (tegula_buffer_create(device, sizeof x, &buffer)) return fail("buffer");
  if (tegula_buffer_upload(buffer, 0, x, sizeof x, NULL)) return fail("upload");
  args[0] = tegula_pointer(tegula_buffer_address(buffer), TEGULA_FLOAT32);
  args[1] = tegula_int(kCount);
  if (tegula_kernel_launch_with(kernel, device, grid_of, &count, &options, NULL, args, 2)) return fail("launch");
  if (tegula_buffer_download(buffer, 0, x, sizeof x, NULL)) return fail("download");
  for (i = 0; i < kCount; ++i)
    if (x[i] != 2 * (float)i) return printf("element %d is %g\n", i, x[i]), 1;

  if (tegula_program_kernel(program, "duble", &kernel) != TEGULA_COMPILE_ERROR) return fail("no error");
  if (!strstr(tegula_last_error(), "did you mean 'double'?")) return fail("another error");
  tegula_kernel_release(kernel);
  tegula_program_release(program);
  tegula_buffer_release(buffer);
  tegula_device_release(device);
  printf("%d numbers doubled through the C interface of %s\n", kCount, tegula_version());
  return 0;
}
