// The entries that a C++ function runs: those of several launches, and of kernels whose arguments do not follow from
// their parameters alone. Not for users.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

void run_linear_dropout(Device& device, const BoundCall& call, StreamHandle stream);
void run_linear_rms_norm(Device& device, const BoundCall& call, StreamHandle stream);
void run_linear_layer_norm(Device& device, const BoundCall& call, StreamHandle stream);
void run_linear_cross_entropy(Device& device, const BoundCall& call, StreamHandle stream);
void run_gemm(Device& device, const BoundCall& call, StreamHandle stream);
void run_scaled_gemm(Device& device, const BoundCall& call, StreamHandle stream);
void run_index_add(Device& device, const BoundCall& call, StreamHandle stream);
void run_embedding_backward(Device& device, const BoundCall& call, StreamHandle stream);
void run_grouped_gemm(Device& device, const BoundCall& call, StreamHandle stream);

}  // namespace tegula::kernels
