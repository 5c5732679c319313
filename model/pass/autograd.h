// Reverse-mode differentiation on a tape. A differentiable function computes its outputs, declares
// what it keeps (Saved), and records one closure that turns gradients of outputs into gradients of
// inputs. backward() runs the closures in reverse and destroys each as soon as it has run, so that
// activations and gradients live no longer than they must. Gradients of parameters never pass
// through here: they are written straight into the store's GradSlots.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/tensor.h"
#include "model/pass/number_watch.h"
#include "model/pass/saved.h"

namespace ds {

// A value and the place of its gradient on a tape. Copies share the value's bytes.
struct Var {
  static constexpr int kConstant = -1;

  Tensor value;
  int slot = kConstant;  // kConstant: no gradient flows into it

  bool defined() const { return value.defined(); }
};

// Work on weight gradients that nobody upstream waits for, with the label of where it belongs.
struct WeightWork {
  std::string label;
  std::function<void()> run;
};

class Tape;

// What a backward closure sees: gradients of its outputs to take, gradients of its inputs to give.
class GradientFlow {
 public:
  // Gradient of output `index`; undefined when nothing flowed into it. Moved out: a closure that
  // finds itself the sole owner may overwrite it.
  Tensor take(int index);
  bool wanted(int input) const;  // false for constants: computing that gradient would be wasted
  // Adds to the gradient of input `index`; ignored for constants.
  void give(int index, Tensor gradient);
  // Gradients of weights, which no closure needs: computed now in backward(), kept by
  // backward_inputs(). `work` owns what it reads, so that nothing of it is overwritten meanwhile. A
  // gradient that falls off in the pass over the inputs' one, as a norm's does, is no such work.
  void later(std::function<void()> work);
  // Runs the closures of another tape, made by this closure, as part of this flow: what they leave
  // for later waits as long as this one's would.
  void run(Tape& tape);

 private:
  friend class Tape;
  GradientFlow(Tape& tape, Stream& stream, std::span<const int> inputs,
               std::span<const int> outputs, std::vector<WeightWork>* kept)
      : tape_(tape), stream_(stream), inputs_(inputs), outputs_(outputs), kept_(kept) {}

  Tape& tape_;
  Stream& stream_;
  std::span<const int> inputs_;
  std::span<const int> outputs_;
  std::vector<WeightWork>* const kept_;  // null: nothing waits
};

using Backward = std::function<void(GradientFlow&)>;

// One forward pass, consumed by one backward pass. Confined to one thread.
class Tape {
 public:
  // `saves` says where saved values wait for the backward pass, and has to outlive the tape; null:
  // they stay where they are. `numbers` looks at what flows; null: nothing does.
  explicit Tape(SavePolicy* saves = nullptr, NumberWatch* numbers = nullptr)
      : policy_(saves), numbers_(numbers) {}
  Tape(const Tape&) = delete;  // closures hold activations: a copy would double their life
  Tape& operator=(const Tape&) = delete;

  // A leaf whose gradient is wanted: read it with take_gradient() after backward().
  Var watch(Tensor value);
  // For the closure that is recorded next.
  Saved save(const Tensor& tensor);
  // The closure runs when a gradient has reached any of `outputs`, or always when there are none (a
  // loss, which starts the flow). Returns one Var per output. `name` and `place`, where it was
  // recorded, live as long as the tape: they label the stream while the closure runs.
  std::vector<Var> record(std::string_view name, std::span<const Var> inputs,
                          std::vector<Tensor> outputs, Backward backward,
                          std::string_view place = {});

  // After the last record(): backward() is not next, so what that closure has saved may leave, too.
  void put_aside();

  // Lets `gradient` (the value's shape) flow into `from` before backward(): a later pipeline
  // stage's.
  void seed(Stream& stream, const Var& from, Tensor gradient);
  // Runs and drops every closure, newest first.
  void backward(Stream& stream);
  // The same without what closures leave for later(), which is returned. Run in that order, it
  // gives the gradients of backward() to the bit.
  std::vector<WeightWork> backward_inputs(Stream& stream);
  Tensor take_gradient(const Var& var);  // undefined when nothing flowed into it
  size_t size() const { return nodes_.size(); }

 private:
  friend class GradientFlow;
  struct Node {
    std::string_view name;
    std::string_view place;
    std::vector<int> inputs;
    std::vector<int> outputs;
    Backward backward;
    std::vector<Saved> saved;  // where they may leave and have to be brought back
  };

  void run_closures(Stream& stream, std::vector<WeightWork>* kept);
  void leave_newest();
  int new_slot(const Tensor& value);
  void add_gradient(Stream& stream, int slot, Tensor gradient);
  bool reached(const Node& node) const;

  SavePolicy* const policy_;
  NumberWatch* const numbers_;
  std::vector<Saved> saved_;  // for the closure that is recorded next
  std::vector<Node> nodes_;
  std::vector<Tensor> gradients_;  // by slot
  std::vector<Shape> shapes_;      // by slot: of the value, to check what flows
  std::string label_;              // of the closure that runs
  std::string_view name_, place_;  // likewise
};

}  // namespace ds
