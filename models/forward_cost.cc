#include "models/forward_cost.h"

namespace dtrain::models {
namespace {

thread_local ForwardCost counted;

}  // namespace

ForwardCost CostOf(const std::function<void()>& pass) {
  counted = {};
  pass();
  return counted;
}

void CountForward(const ForwardCost& layer) {
  counted.multiply_adds += layer.multiply_adds;
  counted.activation_elements += layer.activation_elements;
  counted.moved_elements += layer.moved_elements;
}

}  // namespace dtrain::models
