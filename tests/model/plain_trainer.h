// The plainest training loop over a PlainStore: one rank, whole weights, fp32 master weights. What
// every sharded run must reproduce, and what the golden runs are checked with.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/optimizer/update.h"
#include "model/families/zoo.h"
#include "model/stores/plain_store.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/step_numbers.h"
#include "tests/support/sums.h"
#include "tests/support/test_stream.h"

namespace ds::testing {

struct AdamHyper {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  kernels::WeightDecay decay = kernels::WeightDecay::kDecoupled;
  double clip = 1.0;
};

class PlainTrainer {
 public:
  struct StepResult {
    double loss = 0;       // mean over all tokens, before the update
    double grad_norm = 0;  // before clipping
  };

  PlainTrainer(const ModelConfig& config, DType dtype, uint64_t seed)
      : store(own.stream, seed), model(make_model(config, dtype, store)) {
    store.seal();
    for (ParamId id = 0; id < store.count(); ++id) {
      const Shape flat{store.spec(id).shape.numel()};
      states_.push_back({Tensor::empty(flat, DType::kF32, own.stream),
                         Tensor::zeros(flat, DType::kF32, own.stream),
                         Tensor::zeros(flat, DType::kF32, own.stream),
                         Tensor::zeros(flat, DType::kF32, own.stream)});
      set_master(id, store.weight(id).reshape(flat));
    }
  }

  // Sets a weight from any float dtype.
  void set_master(ParamId id, const Tensor& from) {
    State& state = states_[static_cast<size_t>(id)];
    kernels::cast(own.stream, from, state.master);
    Tensor weight = store.weight(id).reshape(state.master.shape());
    kernels::cast(own.stream, state.master, weight);
  }
  const Tensor& master(ParamId id) const { return states_[static_cast<size_t>(id)].master; }

  // One optimizer step over [B, T] in `micro_steps` equal parts.
  StepResult step(const Tensor& tokens, const Tensor& targets, const AdamHyper& hyper,
                  int64_t micro_steps = 1) {
    StepResult result;
    clear_sums();
    const int64_t batch = tokens.shape()[0] / micro_steps;
    for (int64_t i = 0; i < micro_steps; ++i) {
      result.loss += micro_step(rows(tokens, i, batch), rows(targets, i, batch), tokens.numel());
      for (ParamId id = 0; id < store.count(); ++id) {
        Tensor& sum = states_[static_cast<size_t>(id)].gradient;
        kernels::accumulate(own.stream, store.gradient(id).reshape(sum.shape()), sum);
      }
    }
    double squares = 0;
    for (const State& state : states_) {
      squares += squares_of(own.stream, state.gradient);
    }
    result.grad_norm = std::sqrt(squares);
    update(hyper, result.grad_norm);
    return result;
  }

  TestStream own;
  PlainStore store;
  std::unique_ptr<LanguageModel> model;

 private:
  struct State {
    Tensor master, exp_avg, exp_avg_sq, gradient;  // fp32
  };

  static Tensor rows(const Tensor& whole, int64_t index, int64_t batch) {
    const int64_t length = whole.shape()[1];
    return whole.narrow(index * batch * length, batch * length).reshape({batch, length});
  }

  void clear_sums() {
    for (State& state : states_) kernels::fill(own.stream, state.gradient, 0);
  }

  double micro_step(const Tensor& tokens, const Tensor& targets, int64_t global_tokens) {
    store.clear_gradients();
    Tape tape;
    Context context{
        .stream = own.stream, .store = &store, .tape = &tape, .pass = {.mode = RunMode::kTrain}};
    const auto scale = static_cast<float>(1.0 / static_cast<double>(global_tokens));
    const Tensor losses = model->loss(context, tokens, targets, scale);
    context.tape->backward(context.stream);
    return sum_of(own.stream, losses) / static_cast<double>(global_tokens);
  }

  void update(const AdamHyper& hyper, double norm) {
    ++updates_;
    const double factor = hyper.clip > 0 ? std::min(1.0, hyper.clip / (norm + 1e-6)) : 1.0;
    const StepScalars scalars = scalars_of(own.stream,
                                           {.lr = hyper.lr,
                                            .beta1 = hyper.beta1,
                                            .beta2 = hyper.beta2,
                                            .correction1 = 1 - std::pow(hyper.beta1, updates_),
                                            .correction2 = 1 - std::pow(hyper.beta2, updates_)},
                                           {.grad_scale = static_cast<float>(factor)});
    for (ParamId id = 0; id < store.count(); ++id) {
      State& state = states_[static_cast<size_t>(id)];
      kernels::adam_update(own.stream,
                           {.master = state.master,
                            .grad = state.gradient,
                            .exp_avg = state.exp_avg,
                            .exp_avg_sq = state.exp_avg_sq,
                            .rule = {.eps = static_cast<float>(hyper.eps),
                                     .weight_decay = static_cast<float>(hyper.weight_decay),
                                     .decay = hyper.decay}},
                           scalars);
      Tensor weight = store.weight(id).reshape(state.master.shape());
      kernels::cast(own.stream, state.master, weight);
    }
  }

  std::vector<State> states_;
  int updates_ = 0;
};

}  // namespace ds::testing
