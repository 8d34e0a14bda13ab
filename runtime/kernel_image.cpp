// Comparisons, which the headers leave out: a default one has the compiler look through all operators of the namespace,
// those of Tiles among them, in each file.
#include "runtime/kernel_image.h"

namespace tegula {

bool ImageParam::operator==(const ImageParam&) const = default;
bool ImageConstant::operator==(const ImageConstant&) const = default;
bool FewerStages::operator==(const FewerStages&) const = default;
bool ImageAssert::operator==(const ImageAssert&) const = default;
bool Transfer::operator==(const Transfer&) const = default;
bool KernelImage::operator==(const KernelImage&) const = default;
bool LaunchStep::operator==(const LaunchStep&) const = default;
bool ImageTensorMap::operator==(const ImageTensorMap&) const = default;
bool TensorMaps::operator==(const TensorMaps&) const = default;
bool MappedArray::operator==(const MappedArray&) const = default;

std::string entry_of_many(const std::string& kernel) { return kernel + "_of_many_programs"; }
bool KernelImage::moves_registers() const { return ptx.find("setmaxnreg") != std::string::npos; }

}  // namespace tegula
