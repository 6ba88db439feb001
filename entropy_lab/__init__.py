"""entropy-lab: did this checkpoint lose breadth, where inside the trajectory, and what brings it back?"""
