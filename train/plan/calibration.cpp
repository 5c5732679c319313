#include "train/plan/calibration.h"

#include <algorithm>

#include "comm/shm/comm.h"
#include "train/plan/dry_run.h"
#include "train/workspace.h"

namespace ds {
namespace {

constexpr int64_t kMostWidth = 1024;
constexpr int64_t kMostVocabulary = 4096;
constexpr int64_t kMostTokens = 512;

// Heads keep their size, since the speed of attention depends on it.
int64_t heads_within(int64_t heads, int64_t width) {
  const int64_t head = std::max<int64_t>(width / heads, 1);
  return std::clamp<int64_t>(kMostWidth / head, 1, heads);
}

void reduce(Gpt2Config& model) {
  const int64_t inner = model.n_inner.value_or(4 * model.n_embd);
  const int64_t heads = heads_within(model.n_head, model.n_embd);
  const int64_t width = model.n_embd / model.n_head * heads;
  model.n_inner = std::max<int64_t>(inner * width / model.n_embd, 1);
  model.n_embd = width;
  model.n_head = heads;
  model.n_layer = 1;
  model.vocab_size = std::min(model.vocab_size, kMostVocabulary);
}

void reduce(LlamaConfig& model) {
  const int64_t key_heads = model.num_key_value_heads.value_or(model.num_attention_heads);
  const int64_t per_key_head = model.num_attention_heads / key_heads;
  const int64_t head = model.head_dim.value_or(model.hidden_size / model.num_attention_heads);
  const int64_t most = heads_within(model.num_attention_heads, model.hidden_size);
  const int64_t kept = std::max<int64_t>(most / per_key_head, 1);  // key-value heads
  const int64_t width = model.hidden_size * kept / key_heads / 2 * 2;
  model.intermediate_size =
      std::max<int64_t>(model.intermediate_size * width / model.hidden_size, 1);
  model.head_dim = head;
  model.hidden_size = width;
  model.num_attention_heads = kept * per_key_head;
  model.num_key_value_heads = kept;
  model.num_hidden_layers = 1;
  model.vocab_size = std::min(model.vocab_size, kMostVocabulary);
}

class AnyTokens final : public BatchSource {
 public:
  explicit AnyTokens(int64_t vocabulary) : vocabulary_(static_cast<uint64_t>(vocabulary)) {}
  void fill(int64_t /*step*/, int /*micro_step*/, std::span<int32_t> tokens,
            std::span<int32_t> targets) override {
    const Rng rng(1, "calibration");
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(rng.bits(i) % vocabulary_);
      targets[i] = static_cast<int32_t>(rng.bits(i + 1) % vocabulary_);
    }
  }
  int64_t first_sample(int /*micro_step*/) const override { return 0; }

 private:
  const uint64_t vocabulary_;
};

}  // namespace

void Stopwatch::close() {
  const int64_t now = clock_.now_ns();
  if (running_ != nullptr) running_->measured += static_cast<double>(now - since_ns_) * 1e-9;
  since_ns_ = now;
}

void Stopwatch::on_op(std::string_view name, const OpCost& cost) {
  close();
  auto known = sums_.find(name);
  if (known == sums_.end()) known = sums_.emplace(name, Sum{}).first;
  running_ = &known->second;
  running_->allowed += ceilings_.seconds_of(name, cost);
}

void Stopwatch::begin() {
  sums_.clear();
  running_ = nullptr;
}

DeviceCeilings Stopwatch::end() {
  close();
  running_ = nullptr;
  DeviceCeilings measured = ceilings_;
  for (const auto& [name, sum] : sums_) {
    if (sum.allowed > 0) measured.slowdown[name] = sum.measured / sum.allowed;
  }
  return measured;
}

EngineOptions reduced_for_calibration(const EngineOptions& options) {
  EngineOptions out = options;
  std::visit([](auto& model) { reduce(model); }, out.model);
  out.zero.policy = zero_policy(0);
  out.zero.micro_steps = 1;
  out.length = std::min(options.length, kMostTokens);
  out.micro_batch = std::clamp<int64_t>(kMostTokens / out.length, 1, options.micro_batch);
  return out;
}

DeviceCeilings calibrate(const EngineOptions& options, int threads) {
  const EngineOptions job = reduced_for_calibration(options);
  const auto alone = std::move(make_thread_group(1).front());
  Connections connections = Connections::over(*alone, {});
  const MonotonicClock clock;
  Stopwatch watch(cpu_ceilings(threads, options.dtype), clock);
  Workspace workspace(Device::cpu(), threads, connections.peers(), &watch);
  // As in a run, memory has its places: fresh pages for every tensor would be measured, too.
  Engine engine(job, workspace.resources(), dry_run(job, {}, {}).of_rank(0).step);
  AnyTokens tokens(dimensions(job.model).vocabulary);
  const auto step = [&] {
    engine.begin_step(tokens, 0);
    engine.next_result(Wait::kYes);
  };
  constexpr int kFewest = 2, kMost = 20;
  constexpr int64_t kLongEnough = 150'000'000;  // ns, of which a few small steps are noise
  step();                                       // pages, caches and primitives are made
  watch.begin();
  const int64_t start = clock.now_ns();
  for (int i = 0; i < kFewest || (i < kMost && clock.now_ns() - start < kLongEnough); ++i) step();
  return watch.end();
}

}  // namespace ds
