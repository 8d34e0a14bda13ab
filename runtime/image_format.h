// Kernel images as bytes, for the disk cache and for files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/byte_stream.h"
#include "runtime/kernel_image.h"

namespace tegula {

/// Changes whenever the bytes do.
inline constexpr uint32_t kImageFormatVersion = 12;

/// All of the image, little-endian and without padding: equal images give equal bytes.
std::string to_bytes(const KernelImage& image);

/// Steps among other bytes. What is read has element types; TensorMaps::are_valid() tells whether it can be computed.
void write_steps(ByteWriter& w, const std::vector<LaunchStep>& steps);
std::vector<LaunchStep> read_steps(ByteReader& r);

/// The image again; none if `bytes` are not exactly one image.
std::optional<KernelImage> image_from_bytes(std::string_view bytes);

}  // namespace tegula
