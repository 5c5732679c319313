// Models of every family of which a part trains: what trains has the gradient that it has where all
// does, to the bit, and of what is frozen no gradient is asked for.
#include <functional>
#include <map>

#include "model/families/zoo.h"
#include "model/stores/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/step_numbers.h"
#include "tests/support/test_stream.h"
#include "tests/support/tiny_models.h"

namespace ds {
namespace {

using testing::random_tokens;
using Trains = std::function<bool(const std::string& name)>;

// A store whose parameters are frozen unless somebody says that they train.
class MarkingStore final : public ParameterStore {
 public:
  MarkingStore(PlainStore& store, Trains trains) : store_(store), trains_(std::move(trains)) {}
  ParamId add(ParamSpec spec) override {
    spec.trains = trains_(spec.name);
    return store_.add(std::move(spec));
  }
  void seal() override { store_.seal(); }
  int count() const override { return store_.count(); }
  const ParamSpec& spec(ParamId id) const override { return store_.spec(id); }
  Lease acquire(ParamId id) override { return store_.acquire(id); }
  GradSlot grad_slot(ParamId id) override { return store_.grad_slot(id); }
  void grad_ready(ParamId id) override { store_.grad_ready(id); }
  void expect_uses(ParamId id, int uses) override { store_.expect_uses(id, uses); }

 private:
  PlainStore& store_;
  const Trains trains_;
};

using Gradients = std::map<std::string, std::vector<float>>;

Gradients gradients_of(const ModelConfig& config, const Trains& trains,
                       PassSettings settings = {}) {
  testing::TestStream own;
  PlainStore store(own.stream, 3);
  MarkingStore marked(store, trains);
  const auto model = make_model(config, DType::kF32, marked);
  marked.seal();
  const Tensor tokens = random_tokens(own.stream, {2, 7}, 1, testing::kTinyVocabulary);
  const Tensor targets = random_tokens(own.stream, {2, 7}, 2, testing::kTinyVocabulary);
  Tape tape;
  const testing::PlacedInputs inputs(own.stream);
  settings.mode = RunMode::kTrain;
  settings.micro = inputs.get();
  Context context{.stream = own.stream, .store = &store, .tape = &tape, .pass = settings};
  model->loss(context, tokens, targets, 0.1F);
  tape.backward(own.stream);
  Gradients gradients;
  for (ParamId id = 0; id < store.count(); ++id) {
    const ParamSpec& spec = store.spec(id);
    if (spec.trains) gradients.emplace(spec.name, testing::floats_of(store.gradient(id)));
  }
  return gradients;
}

// Every parameter is among what trains in some of the ways, and among what is frozen in others.
std::vector<Trains> ways() {
  const auto ends = [](std::string_view with) {
    return [with](const std::string& name) { return name.ends_with(with); };
  };
  const auto has = [](std::string_view part) {
    return [part](const std::string& name) { return name.find(part) != std::string::npos; };
  };
  return {ends("bias"),
          ends("weight"),
          has("norm"),
          has("ln_"),
          has(".0."),
          has(".1."),
          [](const std::string& name) { return name.size() % 2 == 0; },
          [](const std::string& name) { return name.size() % 2 == 1; },
          [](const std::string& name) {
            return name.find("emb") != std::string::npos || name.find("wte") != std::string::npos;
          }};
}

TEST_CASE("what trains has the gradient that it has where all trains", "[model][device]") {
  for (const ModelConfig& config : testing::tiny_models(2)) {
    CAPTURE(family_name(config));
    const Gradients all = gradients_of(config, [](const std::string&) { return true; });
    const std::vector<Trains> list = ways();
    for (size_t way = 0; way < list.size(); ++way) {
      CAPTURE(way);
      for (const int64_t tiles : {1, 3}) {
        const Gradients all_so = tiles == 1
                                     ? all
                                     : gradients_of(config, [](const std::string&) { return true; },
                                                    {.mlp_tiles = tiles});
        const Gradients some = gradients_of(config, list[way], {.mlp_tiles = tiles});
        for (const auto& [name, values] : all_so) {
          CAPTURE(name);
          REQUIRE(some.contains(name) == list[way](name));
          if (some.contains(name)) CHECK(some.at(name) == values);
        }
      }
    }
  }
}

TEST_CASE("a store has no gradient for what does not train", "[model]") {
  testing::TestStream own;
  PlainStore store(own.stream, 3);
  const ParamId id = store.add({.name = "frozen", .shape = {4}, .trains = false});
  store.seal();
  CHECK_THROWS_WITH(store.grad_slot(id), Catch::Contains("frozen does not train"));
}

}  // namespace
}  // namespace ds
