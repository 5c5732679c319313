#include "kernels/step/scalars.h"

#include <cstddef>
#include <type_traits>

#include "core/device/device_flags.h"
#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/step/scalars_cpu.h"
#include "kernels/step/scalars_cuda.h"

namespace ds {
namespace {

static_assert(std::is_trivially_copyable_v<StepInputs> && sizeof(StepInputs) == 64);
static_assert(std::is_trivially_copyable_v<StepOutcome> && sizeof(StepOutcome) == 192);
static_assert(offsetof(StepOutcome, found) == offsetof(StepOutcome, skip) + sizeof(uint32_t));
static_assert(sizeof(StepSums) == kStepSums * sizeof(double));

// The parts of the block begin here, in bytes.
constexpr int64_t kSkipAt = offsetof(StepOutcome, skip);
constexpr int64_t kInputsAt = sizeof(StepOutcome);
constexpr int64_t kAfterSkipAt = kInputsAt + static_cast<int64_t>(sizeof(StepInputs));
constexpr int64_t kSumsAt = kAfterSkipAt + static_cast<int64_t>(sizeof(StepInputs));
constexpr int64_t kGatheredAt = kSumsAt + static_cast<int64_t>(sizeof(StepSums));

// What begins a step, as it lies in the block.
struct Beginning {
  StepInputs inputs, after_skip;
  StepSums sums;
};
static_assert(offsetof(Beginning, after_skip) == kAfterSkipAt - kInputsAt);
static_assert(offsetof(Beginning, sums) == kSumsAt - kInputsAt);

// One for each step that may be under way, and some for what is written between steps.
constexpr int kStagingPlaces = 4;

void* at(const Tensor& block, int64_t bytes) {
  return static_cast<std::byte*>(block.address()) + bytes;
}

// In a dry run for a CUDA device the halves take addresses, which are never read.
void* part_of(const Tensor& block, const Stream& stream, int64_t bytes) {
  DS_CHECK(!stream.device().is_meta() || stream.stands_for().kind == Device::Kind::kCuda,
           "step scalars: those on meta have no bytes");
  return at(block, bytes);
}

}  // namespace

StepScalars::StepScalars(int ranks, Stream& stream, MemoryResource* pinned)
    : stream_(&stream),
      block_(Tensor::empty({kGatheredAt + ranks * static_cast<int64_t>(sizeof(StepSums))},
                           DType::kU8, stream, MemoryTag::kOptimizer)),
      staging_(std::make_shared<StagingRing>(sizeof(Beginning), kStagingPlaces, pinned)) {
  DS_CHECK(ranks >= 1, "step scalars: a group of {} ranks", ranks);
  // Kernels would make it while the stream allocates from the arena of a micro-step.
  static_cast<void>(DeviceFlags(stream));
  upload({}, 0);
  write({});
}

void StepScalars::upload(const StepInputs& inputs, int64_t flags, const StepInputs& after_skip) {
  const Beginning beginning{
      .inputs = inputs, .after_skip = after_skip, .sums = {.flags = static_cast<double>(flags)}};
  staging_->copy(&beginning, at(block_, kInputsAt),
                 offsetof(Beginning, sums) + sizeof beginning.sums, *stream_);
}

StepOutcome StepScalars::read_back() const {
  StepOutcome outcome;
  copy_outcome(outcome).wait_on_host();
  return outcome;
}

Event StepScalars::copy_outcome(StepOutcome& to) const {
  stream_->copy(at(block_, 0), &to, sizeof to);
  return stream_->mark();
}

void StepScalars::copy_to(const StepScalars& host) const {
  stream_->copy(at(block_, 0), at(host.block_, 0), kSumsAt);
  stream_->synchronize();
}

void StepScalars::clear_skip() {
  stream_->fill_bytes(at(block_, kSkipAt), 0,
                      sizeof(StepOutcome::skip) + sizeof(StepOutcome::found));
}

void StepScalars::write(const StepOutcome& outcome) {
  staging_->copy(&outcome, at(block_, 0), sizeof outcome, *stream_);
}

Tensor StepScalars::sums() const {
  return block_.narrow(kSumsAt, sizeof(StepSums)).reinterpret(DType::kF64);
}

Tensor StepScalars::gathered() const {
  return block_.narrow(kGatheredAt, block_.numel() - kGatheredAt).reinterpret(DType::kF64);
}

StepOutcome StepScalars::host_outcome() const {
  return stream_->device().is_meta() ? StepOutcome{} : outcome();
}

StepInputs StepScalars::host_inputs() const {
  return stream_->device().is_meta() ? StepInputs{} : inputs();
}

StepInputs& StepScalars::inputs() const {
  return *static_cast<StepInputs*>(part_of(block_, *stream_, kInputsAt));
}

const StepInputs& StepScalars::inputs_after_skip() const {
  return *static_cast<const StepInputs*>(part_of(block_, *stream_, kAfterSkipAt));
}

StepOutcome& StepScalars::outcome() const {
  return *static_cast<StepOutcome*>(part_of(block_, *stream_, 0));
}

const double* StepScalars::loss_scale() const {
  return stream_->device().is_meta() ? nullptr : &outcome().scaler.scale;
}

namespace kernels {

void finish_step(Stream& stream, const Tensor& gathered, const FinishRule& rule,
                 const StepScalars& scalars) {
  constexpr std::string_view kOp = "finish_step";
  detail::require_numel(kOp, "gathered", stream, gathered, gathered.numel());
  detail::require_dtype(kOp, "gathered", gathered, DType::kF64);
  DS_CHECK(gathered.numel() > 0 && gathered.numel() % kStepSums == 0,
           "{}: gathered has {} numbers, expected {} of each rank", kOp, gathered.numel(),
           kStepSums);
  DS_CHECK(rule.max_norm >= 0, "{}: max_norm is {}, expected at least 0", kOp, rule.max_norm);
  DS_CHECK(rule.planned_weight >= 0, "{}: a mean over a weight of {}, expected at least 0", kOp,
           rule.planned_weight);
  DS_CHECK(rule.gradient_factor > 0, "{}: gradients times {}, expected more than 0", kOp,
           rule.gradient_factor);
  const auto numbers = static_cast<double>(gathered.numel());
  stream.report(kOp, {.flops = numbers, .bytes = 8 * numbers + sizeof(StepOutcome)});
  on_device(
      stream, [&](Cpu) { detail::finish_step_cpu(gathered, rule, scalars); },
      [&](Cuda) { detail::finish_step_cuda(stream, gathered, rule, scalars); });
}

}  // namespace kernels
}  // namespace ds
