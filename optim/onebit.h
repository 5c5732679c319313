// Optimizers that exchange momenta or gradients in one bit per number (comm/onebit_comm.h), with
// what compression lost as state of each rank. By the arithmetic of DeepSpeed's, which correct no
// bias and need the whole state on every rank. Sources: Tang et al. (arXiv 2102.02888), Lu et al.
// (arXiv 2202.06009), Li et al. (arXiv 2104.06069).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/onebit_comm.h"
#include "optim/optimizer.h"

namespace ds {

// Each is made by the section of the configuration that `type` names. Unsupported for state in
// fewer bits than fp32.
std::unique_ptr<Optimizer> make_onebit_adam(const OptimizerConfig& config);
std::unique_ptr<Optimizer> make_zero_one_adam(const OptimizerConfig& config);
std::unique_ptr<Optimizer> make_onebit_lamb(const OptimizerConfig& config);

namespace detail {

inline constexpr const char* kWorkerError = "worker_error";
inline constexpr const char* kServerError = "server_error";

void require_fp32_state(const OptimizerConfig& config);

// What parameter by parameter is compressed: two errors for each, in the order of parts and fields;
// none on one rank.
std::vector<AuxiliarySpec> errors_by_param(std::span<const Shard> parts, int ranks);
// Those parameters, with the numbers of a slot. `errors`: as many tensors as errors_by_param().
std::vector<OneBitTensor> onebit_params(std::span<const Shard> parts, size_t slot,
                                        std::span<const Tensor> errors);
// Whether nothing may move. Waits for the scalars: errors and what ranks send would move, too.
bool is_skipped(const StepScalars& scalars);

}  // namespace detail
}  // namespace ds
