// Training with samples whose keys and values go round a ring of ranks, over whole steps of the
// engine: the losses of one rank, the bits of every stage, what is moved and kept, and checkpoints
// of any mesh.
#include "model/functions/functions.h"
#include "model/modules/module.h"
#include "model/stores/plain_store.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/floats.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

// Two heads, which four ranks could not trade.
Gpt2Config gpt2(bool tied, double dropout = 0) {
  Gpt2Config model = small_gpt2(dropout);
  model.attn_pdrop = 0;
  model.tie_word_embeddings = tied;
  return model;
}

LlamaConfig llama(bool tied) {
  LlamaConfig model = llama_of_eight_heads(tied);
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  return model;
}

struct Meshed {
  int ranks;
  int sequence;
  int tensor = 1;
};

Setting setting_of(const Meshed& mesh, int stage, int micro_steps = 1) {
  return {.ranks = mesh.ranks,
          .sequence = mesh.sequence,
          .tensor = mesh.tensor,
          .stage = stage,
          .micro_steps = micro_steps,
          .ring = mesh.sequence};
}

TEST_CASE("ranks of a ring have the losses of one that has samples whole", "[train]") {
  for (const ModelConfig& model : {ModelConfig(gpt2(true, 0.2)), ModelConfig(gpt2(false)),
                                   ModelConfig(llama(true)), ModelConfig(llama(false))}) {
    const Outcome alone = run_model({}, model);
    CHECK(alone.losses.back() != alone.losses.front());
    for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{4, 2}, Meshed{4, 2, 2}}) {
      CAPTURE(model.index(), mesh.ranks, mesh.sequence, mesh.tensor);
      require_losses_near(run_model(setting_of(mesh, 3), model), alone, 1e-5);
    }
  }
}

TEST_CASE("stages of ZeRO agree to the bit over the ranks of a ring", "[train]") {
  require_stages_alike(setting_of({4, 2}, 0, 3), gpt2(true), 3);
}

TEST_CASE("a ring trains in bf16, and comes near whole samples", "[train]") {
  Setting alone{.dtype = DType::kBF16};
  Setting ring = setting_of({4, 4}, 3);
  ring.dtype = DType::kBF16;
  ring.wire = DType::kF32;
  require_losses_near(run_model(ring, llama(true)), run_model(alone, llama(true)), 3e-2);
}

TEST_CASE("blocks that are run again go round the ring again, with the same bits", "[train]") {
  Setting setting = setting_of({4, 4}, 2, 3);
  const ModelConfig model = gpt2(true, 0.1);
  const Outcome kept = run_model(setting, model, 2);
  for (const RecomputedPart part : {RecomputedPart::kBlock, RecomputedPart::kAttention}) {
    setting.recomputed = {.recompute = {.part = part}};
    const Outcome again = run_model(setting, model, 2);
    CHECK(again.state == kept.state);
    CHECK(again.losses == kept.losses);
  }
}

TEST_CASE("a run goes on with another ring, or without one", "[train]") {
  const ModelConfig model = gpt2(true, 0.1);
  const Outcome whole = run_model({}, model, 5);
  const std::vector<Meshed> meshes{{2, 2}, {4, 4}, {1, 1}};
  for (size_t i = 0; i < meshes.size(); ++i) {
    const Meshed& first = meshes[i];
    const Meshed& second = meshes[(i + 1) % meshes.size()];
    CAPTURE(first.ranks, second.ranks);
    require_goes_on(setting_of(first, 3), setting_of(second, 1), model, whole);
  }
}

TEST_CASE("a ring moves keys and values P - 1 times a pass, as planned", "[train]") {
  for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{4, 2}}) {
    for (const auto part : {RecomputedPart::kNone, RecomputedPart::kBlock}) {
      CAPTURE(mesh.ranks, mesh.sequence, static_cast<int>(part));
      Setting setting = setting_of(mesh, 2, 3);
      setting.recomputed = {.recompute = {.part = part}};
      const EngineOptions options = options_with(setting, llama(true));
      const Moved moved = moved_by(setting, options).front();
      // There are two layers and three micro-steps: keys and values of the tokens here, two heads
      // of 8. The forward passes them on, the backward both them and their gradients. The first
      // layer is run again, the last one is not.
      const int64_t ranks = mesh.sequence;
      const int64_t tokens = options.micro_batch * options.length / ranks;
      const int64_t bytes = tokens * 2 * 2 * 8 * 4;
      const int64_t passes = 2 * 3 + (part == RecomputedPart::kBlock ? 1 : 0);
      const auto& ring = moved.traffic.at("sequence");
      CHECK(ring.at("send").wire_bytes == 3 * passes * (ranks - 1) * bytes);
      CHECK(ring.at("recv").wire_bytes == 0);
      CHECK(ring.size() == 2);
      check_as_planned(moved);
    }
  }
}

TEST_CASE("a ring leaves a rank its part of the activations", "[train]") {
  Setting setting = setting_of({1, 1}, 0);
  setting.global_batch = 1;
  EngineOptions options = options_with(setting, Gpt2Config{.n_layer = 4,
                                                           .n_head = 8,
                                                           .n_embd = 256,
                                                           .n_positions = 4096,
                                                           .vocab_size = 256,
                                                           .resid_pdrop = 0,
                                                           .embd_pdrop = 0,
                                                           .attn_pdrop = 0});
  options.length = 4096;
  const auto activations = [&](int sequence) {
    const RunPlan plan = dry_run(options, {.sequence = sequence, .ring = sequence}, {});
    const MemoryUsage memory = nth(plan.of_rank(0).memory, Tier::kDevice);
    return static_cast<double>(nth(memory.tag_bytes_at_peak, MemoryTag::kActivations));
  };
  const double alone = activations(1);
  CHECK(activations(2) < 0.6 * alone);
  CHECK(activations(8) < 0.16 * alone);
}

TEST_CASE("what a ring cannot do is refused", "[train]") {
  const auto refused = [](const EngineOptions& options, int sequence) {
    std::string text;
    try {
      dry_run(options, {.sequence = sequence, .ring = sequence}, {});
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  const Setting ring = setting_of({1, 1}, 0);
  EngineOptions options = options_with(ring, gpt2(true));
  CHECK(refused(options, 2).empty());
  options.length = 6;
  CHECK_THAT(refused(options, 2), Catch::Contains("3 rows of a sequence are no two equal pieces"));
  Gpt2Config drops = gpt2(true);
  drops.attn_pdrop = 0.1;
  CHECK_THAT(refused(options_with(ring, drops), 2),
             Catch::Contains("a ring drops no probabilities"));
}

// What a rank makes of its rows, and the gradient of the sinks.
struct Attended {
  std::vector<float> y, dqkv, dsinks;
};
Attended attend(Stream& stream, const Parallel& parallel, const kernels::AttentionSpec& spec,
                const Tensor& qkv, const Tensor& direction) {
  PlainStore store(stream, 5);
  const BuildContext root{.store = store, .dtype = DType::kF32, .path = "", .unit = 0};
  const ParamId sinks = root.param("sinks", {2}, normal(1), ModuleKind::kLinear);
  store.seal();
  Tape tape;
  Context context{.stream = stream, .store = &store, .tape = &tape, .parallel = parallel};
  const Var x = tape.watch(qkv);
  const Var y = attention(context, spec, x, 0, {}, sinks);
  tape.seed(stream, y, direction);
  tape.backward(stream);
  stream.synchronize();
  return {floats_of(y.value), floats_of(tape.take_gradient(x)), floats_of(store.gradient(sinks))};
}

// The rows of a rank: a piece from the front and one from the back.
Tensor rows_of_rank(Stream& stream, const Tensor& all, int rank, int ranks) {
  const int64_t width = all.shape()[1], piece = all.shape()[0] / (int64_t{2} * ranks);
  Tensor out = Tensor::empty({2 * piece, width}, DType::kF32, stream);
  const int64_t pieces[] = {rank, 2 * ranks - 1 - rank};
  for (int64_t i = 0; i < 2; ++i) {
    stream.copy(all.narrow(pieces[i] * piece * width, piece * width).address(),
                out.narrow(i * piece * width, piece * width).address(),
                static_cast<size_t>(piece * width) * sizeof(float));
  }
  return out;
}

TEST_CASE("sinks and narrow values go round a ring", "[train]") {
  CpuStream host;
  kernels::AttentionSpec spec{.shape = {1, 16, 2, 1, 8}, .value_dim = 5};
  const Tensor qkv = random_tensor(host.stream, {16, 2 * 8 + 8 + 5}, 1);
  const Tensor direction = random_tensor(host.stream, {16, 10}, 2);
  const Attended alone = attend(host.stream, kUnshared, spec, qkv, direction);
  CHECK(std::ranges::none_of(alone.dsinks, [](float sink) { return sink == 0; }));
  for (const int ranks : {2, 4}) {
    std::vector<Attended> parts(to_size(ranks));
    spec.shape.length = 16 / ranks;
    test::run_ranks(ranks, [&](Communicator& comm) {
      with_rank(
          comm, HostAccess::kAlways,
          [&](TestRank& rank) {
            const RankResources resources = rank.resources();
            Stream& stream = resources.stream;
            const auto here = [&](const Tensor& all) {
              return rows_of_rank(stream, all, comm.rank(), ranks);
            };
            nth(parts, comm.rank()) =
                attend(stream, resources.parallel(false), spec, here(qkv), here(direction));
          },
          Devices::kShared, MeshSizes{.sequence = ranks, .ring = ranks});
    });
    std::vector<float> sinks(2);
    for (int r = 0; r < ranks; ++r) {
      const Attended& part = nth(parts, r);
      const auto near = [&](const std::vector<float>& got, const std::vector<float>& whole,
                            int64_t width) {
        const Tensor of_whole =
            Tensor::borrow(const_cast<float*>(whole.data()), {16, width}, DType::kF32);
        const auto expected = floats_of(rows_of_rank(host.stream, of_whole, r, ranks));
        REQUIRE(got.size() == expected.size());
        for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(1e-5));
      };
      near(part.y, alone.y, 10);
      near(part.dqkv, alone.dqkv, 29);
      for (size_t h = 0; h < sinks.size(); ++h) sinks[h] += part.dsinks[h];
    }
    for (size_t h = 0; h < sinks.size(); ++h) {
      CHECK(sinks[h] == Approx(alone.dsinks[h]).margin(1e-5));
    }
  }
}

}  // namespace
}  // namespace ds
