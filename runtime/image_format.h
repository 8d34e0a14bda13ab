// Kernel images as bytes, for the disk cache and for files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/kernel_image.h"

namespace tegula {

/// Changes whenever the bytes do.
inline constexpr uint32_t kImageFormatVersion = 9;

/// All of the image, little-endian and without padding: equal images give equal bytes.
std::string to_bytes(const KernelImage& image);

/// The image again; none if `bytes` are not exactly one image.
std::optional<KernelImage> image_from_bytes(std::string_view bytes);

}  // namespace tegula
