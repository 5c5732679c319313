// A differentiable function under test: its gradients against central differences on the CPU; on
// other devices results and gradients against those of the CPU.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "model/functions/functions.h"
#include "model/modules/module.h"
#include "model/stores/plain_store.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/step_numbers.h"
#include "tests/support/tensor_gradcheck.h"
#include "tests/support/test_stream.h"

namespace ds::testing {

// A function of one input and the store's parameters, with a fixed random direction as the scalar:
// L = sum(direction * y).
class Harness {
 public:
  using Function = std::function<Var(Context&, Var x)>;

  static constexpr int64_t kLength = 3;  // rows of a sample, for what drops of them

  CpuStream cpu{2};
  std::set<std::string> not_numeric{};  // parameters some of whose effect no gradient is to have
  PlainStore store{cpu.stream, 5};
  BuildContext root{.store = store, .dtype = DType::kF32, .path = "", .unit = 0};

  // Moves every parameter away from its zeros and ones, so that no gradient is trivially right.
  void seal() {
    store.seal();
    for (ParamId id = 0; id < store.count(); ++id) {
      Tensor& w = store.weight(id);
      const Tensor noise =
          random_tensor(cpu.stream, w.shape(), 100 + static_cast<uint64_t>(id), 0.3F);
      for (int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] += noise.data<float>()[i];
    }
  }

  void check(Tensor x, const Function& function) {
    const Pass here = pass(cpu.stream, store, x, function);
    if (testing::is_on_device()) return compare(here, x, function);
    const auto loss = [&] { return evaluate(x, function); };
    if (here.dx.defined()) check_gradient("x", loss, x, here.dx);
    for (ParamId id = 0; id < store.count(); ++id) {
      if (!store.spec(id).trains || not_numeric.contains(store.spec(id).name)) continue;
      check_gradient(store.spec(id).name, loss, store.weight(id), store.gradient(id));
    }
  }

  void check_parameters(const std::function<Var(Context&)>& function) {
    check(Tensor::zeros({1}, DType::kF32, cpu.stream),
          [&](Context& context, const Var&) { return function(context); });
  }

 private:
  struct Pass {
    Tensor y, dx;
  };

  static Pass pass(Stream& stream, PlainStore& store, const Tensor& x, const Function& function) {
    Tape tape;
    const PlacedInputs inputs(stream);
    Context context{.stream = stream,
                    .store = &store,
                    .tape = &tape,
                    .pass = {.mode = RunMode::kTrain, .micro = inputs.get(), .length = kLength}};
    const Var input = tape.watch(upload(x, stream));
    const Var y = function(context, input);
    tape.seed(stream, y, random_tensor(stream, y.value.shape(), 77));
    tape.backward(stream);
    return {.y = y.value, .dx = tape.take_gradient(input)};
  }

  double evaluate(const Tensor& x, const Function& function) {
    const PlacedInputs inputs(cpu.stream);
    Context context{.stream = cpu.stream,
                    .store = &store,
                    .pass = {.mode = RunMode::kTrain, .micro = inputs.get(), .length = kLength}};
    const Var y = function(context, {upload(x, cpu.stream), Var::kConstant});
    const Tensor direction = random_tensor(cpu.stream, y.value.shape(), 77);
    double sum = 0;
    for (int64_t i = 0; i < y.value.numel(); ++i) {
      sum += double{y.value.data<float>()[i]} * double{direction.data<float>()[i]};
    }
    return sum;
  }

  void compare(const Pass& here, const Tensor& x, const Function& function) {
    TestStream device;
    PlainStore there(device.stream, 5);
    for (ParamId id = 0; id < store.count(); ++id) there.add(store.spec(id));
    there.seal();
    for (ParamId id = 0; id < store.count(); ++id) {
      const Tensor& weight = store.weight(id);
      device.stream.copy(weight.raw(), there.weight(id).address(), weight.bytes());
    }
    const Pass got = pass(device.stream, there, x, function);
    require_near("y", got.y, here.y);
    REQUIRE(got.dx.defined() == here.dx.defined());
    if (here.dx.defined()) require_near("dx", got.dx, here.dx);
    for (ParamId id = 0; id < store.count(); ++id) {
      if (!store.spec(id).trains) continue;
      require_near(store.spec(id).name, there.gradient(id), store.gradient(id));
    }
  }

  static void require_near(const std::string& name, const Tensor& got, const Tensor& expected) {
    const std::vector<float> a = floats_of(got), b = floats_of(expected);
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      INFO(name << "[" << i << "]");
      REQUIRE(a[i] == Approx(b[i]).epsilon(1e-4).margin(2e-5));
    }
  }
};

}  // namespace ds::testing
