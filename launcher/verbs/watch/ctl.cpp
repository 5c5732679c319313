#include <fmt/format.h>

#include <cstdio>

#include "cli/text/terminal_text.h"
#include "launcher/control/control_request.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch/watch.h"

namespace ds {

int run_ctl(const CtlOptions& options) {
  const ControlReply reply = ask_running(options.run, {.verb = control_verb(options.order)});
  if (options.json) {
    say("{}\n",
        JsonObject().text("notice", reply.notice).raw("status", status_json(reply.status)).str());
  } else {
    say("{}\n", reply.notice);
  }
  return 0;
}

}  // namespace ds
