// One prompt and a text that follows it, token by token.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer/token_stream.h"
#include "generate/logprobs.h"
#include "generate/shown_text.h"
#include "generate/task.h"

namespace ds {

class Continuation {
 public:
  struct Place {
    int64_t prompt = 0;
    int64_t sample = 0;  // of that prompt
  };
  // Both outlive it.
  Continuation(const GenerationTask& task, const GenerateArgs& args, Place place);

  Place place() const { return place_; }
  int64_t drawn() const { return drawn_; }  // tokens so far, one that ended the text included

  // What the model is to be shown next. It remembers what it was shown since the last `fresh` one:
  // the prompt; later the newest token alone. Where the model's positions are used up it is shown
  // the last half of them anew.
  struct Input {
    std::span<const int32_t> tokens;
    bool fresh = false;
    bool is_shortened = false;  // positions are used up
  };
  Input next_input();

  // The next token. Returns what can be shown of the text now.
  std::string take(const DrawnToken& token);
  bool has_ended() const { return end_ != End::kNone; }
  std::string to_json() const;  // of one that has ended, a line

 private:
  enum class End : uint8_t { kNone, kEos, kStop, kLength };
  static const char* name_of(End end);

  const GenerationTask& task_;
  const GenerateArgs& args_;
  const Place place_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  ShownText shown_;
  std::vector<int32_t> all_;        // the prompt's tokens and those after it
  std::vector<DrawnToken> tokens_;  // after the prompt; where log-probabilities are wanted
  TokenStream texts_;
  int64_t seen_ = 0;  // positions that the model remembers
  int64_t drawn_ = 0;
  std::string text_;
  End end_ = End::kNone;
  double seconds_ = 0;  // the prompt's included
};

}  // namespace ds
