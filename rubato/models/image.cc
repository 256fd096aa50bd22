#include "rubato/models/image.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rubato {

ImageShape AskImageShape(ModelSetup& setup) {
  const std::vector<int64_t> shape = setup.options.Ints("image", setup.shape.dense_shape, 1);
  const int64_t columns = static_cast<int64_t>(setup.shape.dense.size());
  if (shape.size() != 2 && shape.size() != 3) {
    setup.options.Refuse(
        absl::StrCat("the data does not say how its ", columns,
                     " dense columns make an image: give the option image as height,width or "
                     "channels,height,width"));
    return {};
  }
  const size_t at = shape.size() - 2;
  const ImageShape image{
      .channels = at == 0 ? 1 : shape[0], .height = shape[at], .width = shape[at + 1]};
  if (image.channels * image.height * image.width != columns) {
    setup.options.Refuse(absl::StrCat("an image of ", absl::StrJoin(shape, " x "),
                                      " needs as many dense columns; there are ", columns));
    return {};
  }
  return image;
}

}  // namespace rubato
