#include "generate/stage_pipeline.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {
namespace {

// A StageOrder on its way; length 0 says that there are no more.
constexpr int64_t kWords = 6;

void send_order(Communicator& pipe, Stream& stream, const StageOrder& order) {
  Tensor words = Tensor::empty({kWords}, DType::kI64, stream);
  const std::array<int64_t, kWords> values{order.slot,   order.fresh ? 1 : 0, order.length,
                                           order.prompt, order.sample,        order.drawn};
  std::ranges::copy(values, words.data<int64_t>());
  pipe.send(words, pipe.rank() + 1, stream);
}

StageOrder receive_order(Communicator& pipe, Stream& stream) {
  Tensor words = Tensor::empty({kWords}, DType::kI64, stream);
  pipe.recv(words, pipe.rank() - 1, stream);
  const int64_t* const values = words.data<int64_t>();
  return {.slot = narrow<int>(values[0]),
          .fresh = values[1] != 0,
          .length = values[2],
          .prompt = values[3],
          .sample = values[4],
          .drawn = values[5]};
}

// A DrawnToken on its way: its id; where log-probabilities are wanted also its own, and of each
// alternative both, with id -1 behind the last one that there is.
int64_t token_words(const StageSteps& steps) {
  return steps.logprobs() ? 2 + 2 * *steps.logprobs() : 1;
}

void send_token(Communicator& pipe, StageSteps& steps, const DrawnToken& token) {
  Tensor words = Tensor::empty({token_words(steps)}, DType::kI32, steps.stream());
  const std::span<int32_t> values(words.data<int32_t>(), to_size(words.numel()));
  std::ranges::fill(values, -1);
  values[0] = token.id;
  if (steps.logprobs()) {
    values[1] = std::bit_cast<int32_t>(token.logprob);
    for (size_t i = 0; i < token.top.size(); ++i) {
      nth(values, 2 + 2 * i) = token.top[i].id;
      nth(values, 3 + 2 * i) = std::bit_cast<int32_t>(token.top[i].logprob);
    }
  }
  pipe.send(words, 0, steps.stream());
}

DrawnToken receive_token(Communicator& pipe, StageSteps& steps) {
  Tensor words = Tensor::empty({token_words(steps)}, DType::kI32, steps.stream());
  pipe.recv(words, pipe.size() - 1, steps.stream());
  const std::span<const int32_t> values(words.data<int32_t>(), to_size(words.numel()));
  DrawnToken token{.id = values[0]};
  if (values.size() > 1) token.logprob = std::bit_cast<float>(values[1]);
  for (size_t i = 2; i + 1 < values.size() && values[i] >= 0; i += 2) {
    token.top.push_back({values[i], std::bit_cast<float>(values[i + 1])});
  }
  return token;
}

bool is_last(const Communicator& pipe) { return pipe.rank() == pipe.size() - 1; }

}  // namespace

void serve_stage(StageSteps& steps, Communicator& pipe, const std::function<void()>& progress) {
  Stream& stream = steps.stream();
  for (;;) {
    const StageOrder order = receive_order(pipe, stream);
    if (order.length == 0) {
      if (!is_last(pipe)) send_order(pipe, stream, order);
      return;
    }
    Tensor boundary = steps.empty_boundary(order.length);
    pipe.recv(boundary, pipe.rank() - 1, stream);
    DS_FAILPOINT("generate.boundary_received");
    if (is_last(pipe)) {
      send_token(pipe, steps, steps.draw(order, std::move(boundary)));
      DS_FAILPOINT("generate.token_sent");
    } else {
      const Tensor out = steps.forward(order, std::move(boundary));
      send_order(pipe, stream, order);
      pipe.send(out, pipe.rank() + 1, stream);
    }
    progress();
  }
}

// A send may wait for its receiver. With one request less under way than there are stages behind
// us, the next stage will be ready to receive without our taking a token meanwhile.
void FirstStage::ask(const TokenRequest& request) {
  const StageOrder order = order_of(request);
  const Tensor out = steps_.forward(order, steps_.uploaded(request.tokens));
  if (under_way_ == pipe_.size() - 1) answers_.push_back(receive());
  send_order(pipe_, steps_.stream(), order);
  pipe_.send(out, 1, steps_.stream());
  ++under_way_;
  DS_FAILPOINT("generate.asked");
}

DrawnToken FirstStage::answer() {
  if (answers_.empty()) return receive();
  DrawnToken token = std::move(answers_.front());
  answers_.pop_front();
  return token;
}

DrawnToken FirstStage::receive() {
  DrawnToken token = receive_token(pipe_, steps_);
  --under_way_;
  return token;
}

void FirstStage::end() { send_order(pipe_, steps_.stream(), {}); }

}  // namespace ds
