/* Tutorial 10 in C: the same package, by the functions that `tegula build --header` writes. It needs libtegula_runtime
 * alone, and C99. */
#include <stdio.h>
#include <stdlib.h>

#include "ship_it.h"
#ifdef SHIP_IT_EMULATED
#include <tegula/tegula.h>
#endif

enum { kRows = 4, kCols = 200 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tegula_last_error());
  return 1;
}

static tegula_status open_device(tegula_device** device) {
#ifdef SHIP_IT_EMULATED
  return tegula_device_default(device);
#else
  return tegula_device_cuda(0, device);
#endif
}

int main(void) {
  static float x[kRows * kCols], out[kRows * kCols];
  tegula_package* package;
  tegula_device* device;
  tegula_packaged* softmax;
  tegula_buffer *in_buffer, *out_buffer;
  float *in_address, *out_address;
  int i, row;

  if (ship_it_open(&package)) return failed("package");
  if (open_device(&device)) return printf("no GPU: %s\n", tegula_last_error()), 0;
  if (tegula_package_load(package, device, "softmax", NULL, &softmax)) return failed("kernel");
  tegula_seal();

  for (i = 0; i < kRows * kCols; ++i) x[i] = (float)(i * 37 % 101) / 10;
  if (tegula_buffer_create(device, sizeof x, &in_buffer) || tegula_buffer_create(device, sizeof out, &out_buffer) ||
      tegula_buffer_upload(in_buffer, 0, x, sizeof x, NULL))
    return failed("memory");
  in_address = (float*)(uintptr_t)tegula_buffer_address(in_buffer);
  out_address = (float*)(uintptr_t)tegula_buffer_address(out_buffer);
  if (ship_it_softmax(softmax, kRows, 1, 1, NULL, out_address, in_address, kCols)) return failed("launch");
  if (tegula_buffer_download(out_buffer, 0, out, sizeof out, NULL)) return failed("result");

  for (row = 0; row < kRows; ++row) {
    double sum = 0;
    for (i = 0; i < kCols; ++i) sum += out[row * kCols + i];
    if (sum < 0.9999 || sum > 1.0001) return printf("row %d sums up to %g\n", row, sum), 1;
  }
  printf("%d rows of softmax from a package: each sums up to 1\n", (int)kRows);
  tegula_buffer_release(in_buffer);
  tegula_buffer_release(out_buffer);
  tegula_packaged_release(softmax);
  tegula_package_release(package);
  tegula_device_release(device);
  return 0;
}
