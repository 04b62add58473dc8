// The engine calls what was queued during a pass when that is done, in the order of queueing. The reducer queues its
// wait with its last bucket; a hook on the loss, with which the pass begins, comes before it.
#include "trainer/distributed/backward_end.h"

#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace dtrain::distributed {

void AfterLastGradient(const at::Tensor& loss, std::function<void()> then) {
  loss.register_hook([then = std::move(then)](const at::Tensor&) {
    torch::autograd::Engine::get_default_engine().queue_callback(then);
  });
}

}  // namespace dtrain::distributed
