import gpytorch
import numpy as np
import torch
from sklearn.cluster import KMeans

from skgp.datasets import make_bimodal

X, y = make_bimodal(2000, random_state=0)
X_new, y_new = make_bimodal(500, random_state=1)

# Standardise by hand, and remember how.
x_mean, x_std, y_mean, y_std = X.mean(0), X.std(0), y.mean(), y.std()
train_x = torch.tensor((X - x_mean) / x_std)
train_y = torch.tensor((y - y_mean) / y_std)
new_x = torch.tensor((X_new - x_mean) / x_std)


class Model(gpytorch.models.ApproximateGP):
    def __init__(self, inducing_points):
        q_u = gpytorch.variational.CholeskyVariationalDistribution(len(inducing_points))
        strategy = gpytorch.variational.VariationalStrategy(
            self, inducing_points, q_u, learn_inducing_locations=True
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        kernel = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=inducing_points.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        mean, covariance = self.mean_module(x), self.covar_module(x)
        return gpytorch.distributions.MultivariateNormal(mean, covariance)


torch.manual_seed(0)
centres = KMeans(100, n_init=1, random_state=0).fit(train_x.numpy()).cluster_centers_
model = Model(torch.tensor(centres)).double()
likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
loss = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(train_y))
parameters = [*model.parameters(), *likelihood.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(train_x, train_y), batch_size=1000, shuffle=True
)

model.train()
likelihood.train()
for _epoch in range(100):
    for batch_x, batch_y in loader:
        optimizer.zero_grad()
        (-loss(model(batch_x), batch_y)).backward()
        optimizer.step()

model.eval()
likelihood.eval()
with torch.no_grad():
    dist = likelihood(model(new_x))
    mean = dist.mean.numpy() * y_std + y_mean
    std = dist.variance.sqrt().numpy() * y_std
nll = np.mean(0.5 * ((y_new - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi))
print(f"NLL {nll:.3f}")
