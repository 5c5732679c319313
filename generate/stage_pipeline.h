// Generation by ranks that are stages of one model (GPipe's cut, arXiv 1811.06965): the first stage
// says what comes next and has the text, the last one draws, and every stage keeps the keys and
// values of its own layers. As many texts are under way as there are stages, so that all of them
// have work.
#pragma once

#include <deque>
#include <functional>

#include "comm/contract/communicator.h"
#include "generate/next_tokens.h"
#include "generate/stage_steps.h"

namespace ds {

// Serves as a rank behind the first: carries out orders until the first stage has no more.
// `progress` is called for each. `pipe` has the stages in their order.
void serve_stage(StageSteps& steps, Communicator& pipe, const std::function<void()>& progress);

// The first stage, for whoever wants tokens. The others are told the end by end().
class FirstStage final : public NextTokens {
 public:
  FirstStage(StageSteps& steps, Communicator& pipe) : steps_(steps), pipe_(pipe) {}

  int slots() const override { return pipe_.size(); }
  void ask(const TokenRequest& request) override;
  DrawnToken answer() override;
  void end();

 private:
  DrawnToken receive();

  StageSteps& steps_;
  Communicator& pipe_;
  int under_way_ = 0;  // between the next stage and us
  std::deque<DrawnToken> answers_;
};

}  // namespace ds
