// Conversions between fp16, bf16 and wider types on bits, and the functions that generated code may call by name.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tegula::emulator {

float half_to_float(uint16_t bits);
float bfloat_to_float(uint16_t bits);
/// To nearest, ties to even. A NaN stays one and becomes quiet.
uint16_t float_to_half(float value);
uint16_t double_to_half(double value);
uint16_t float_to_bfloat(float value);
uint16_t double_to_bfloat(double value);
/// Toward zero: what is too large becomes the largest finite number.
uint16_t float_to_half_rz(float value);
uint16_t float_to_bfloat_rz(float value);

/// Functions that the host's code generator calls for operations that the host lacks, and those of the C library.
const std::vector<std::pair<const char*, void*>>& runtime_functions();

}  // namespace tegula::emulator
