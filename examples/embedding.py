"""
Latent inputs: images of digits from ten numbers
================================================

Inputs that were not observed can describe data without targets. Here ten latent numbers describe
each image of a digit. Gaussian processes of these numbers, followed by a layer of hidden units,
model its 64 pixels. The model turns new images into latent numbers and back, even if half of their
pixels are missing.
"""

# %%
# 400 images to train on, 100 to test. Pixels share a unit, so columns are not standardised.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from skgp import NeuralSBGPRNEmbedding

digits = load_digits()
rows = np.random.default_rng(0).permutation(len(digits.data))[:500]
images, labels = digits.data[rows] / 5.0, digits.target[rows]
images_train, images_test = images[:400], images[400:]

# %%
# A random half of the pixels of each test image is hidden from the second transform.
model = NeuralSBGPRNEmbedding(
    n_components=10,
    n_latents=10,
    n_hidden=16,
    n_samples=2,
    n_inducing=50,
    max_iter=300,
    batch_size=100,
    normalize_X=False,
    noise_floor=0.1,  # ten numbers cannot describe an image more exactly
    random_state=0,
)
model.fit(images_train)
halved = np.where(np.random.default_rng(1).random(images_test.shape) < 0.5, np.nan, images_test)
whole_again = model.inverse_transform(model.transform(images_test))
from_half = model.inverse_transform(model.transform(halved))

# %%
# The same number of principal components, with missing pixels filled by their means.
pca = PCA(10).fit(images_train)
filled = np.where(np.isnan(halved), images_train.mean(0), halved)
linear, linear_from_half = (pca.inverse_transform(pca.transform(X)) for X in (images_test, filled))


def error(reconstructed):
    return np.sqrt(np.mean((reconstructed - images_test) ** 2))


print(f"whole images: embedding {error(whole_again):.3f}, PCA {error(linear):.3f}")
print(f"half of the pixels: embedding {error(from_half):.3f}, PCA {error(linear_from_half):.3f}")

# %%
# Twelve of the test images; hidden pixels are blue.
shown = [images_test, whole_again, linear, halved, from_half, linear_from_half]
names = ["image", "embedding", "PCA", "half of it", "embedding", "PCA"]
colors = plt.get_cmap("gray_r").with_extremes(bad="tab:blue")
figure, axes = plt.subplots(len(shown), 12, figsize=(9, 4.8), layout="constrained")
for row_of_axes, table, name in zip(axes, shown, names, strict=True):
    for ax, image in zip(row_of_axes, table, strict=False):
        ax.imshow(image.reshape(8, 8), cmap=colors, vmin=0.0, vmax=16.0 / 5.0)
        ax.set(xticks=[], yticks=[])
    row_of_axes[0].set_ylabel(name, rotation=0, ha="right", va="center")

# %%
# The first two of the latent numbers, with the digit that each image shows.
figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
points = ax.scatter(*model.embedding_[:, :2].T, c=labels[:400], cmap="tab10", s=12)
figure.colorbar(points, label="digit")
ax.set(xlabel="first latent input", ylabel="second latent input")
plt.show()
